"use strict";
(function () {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const hidden = new Set();
  const config = {
    responsive: true, displaylogo: false, displayModeBar: "hover",
    modeBarButtons: [["toImage", "resetScale2d"]],
    toImageButtonOptions: { format: "svg" },
  };
  const plots = [...document.querySelectorAll(".plot")];
  plots.forEach((plot) => {
    const spec = charts[plot.dataset.chart][Number(plot.dataset.panel)];
    plot.original = JSON.parse(JSON.stringify(spec.layout.yaxis));
  });

  // One plot after the other, so that the page answers while many are drawn.
  async function drawAll() {
    for (const plot of plots) {
      const spec = charts[plot.dataset.chart][Number(plot.dataset.panel)];
      await Plotly.newPlot(plot, spec.data, spec.layout, config);
      apply(plot);
      await new Promise((next) => setTimeout(next, 0));
    }
    document.documentElement.dataset.ready = "true";
  }

  function apply(plot) {
    if (!plot.data) return;
    const wanted = plot.data.map((trace) => !hidden.has(trace.name));
    const change = wanted.map((_, i) => i).filter((i) => (plot.data[i].visible !== false) !== wanted[i]);
    if (change.length) Plotly.restyle(plot, { visible: change.map((i) => wanted[i]) }, change);
  }

  // An arm is hidden in every figure at once: it has one colour and one switch.
  document.addEventListener("click", (event) => {
    const arm = event.target.closest(".legend button");
    if (arm) {
      const name = arm.dataset.arm;
      if (hidden.has(name)) hidden.delete(name); else hidden.add(name);
      document.querySelectorAll(".legend button").forEach((button) => {
        button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.arm)));
      });
      plots.forEach(apply);
    }
    const log = event.target.closest("button.log");
    if (log) {
      const on = log.getAttribute("aria-pressed") !== "true";
      log.setAttribute("aria-pressed", String(on));
      log.closest(".card").querySelectorAll(".plot").forEach((plot) => {
        if (!plot.data) return;
        const range = plot.original.range;
        const back = range ? { "yaxis.range": range.slice() } : { "yaxis.autorange": true };
        Plotly.relayout(plot, on ? { "yaxis.type": "log", "yaxis.autorange": true } : { "yaxis.type": "linear", ...back });
      });
    }
  });
  drawAll();
})();
