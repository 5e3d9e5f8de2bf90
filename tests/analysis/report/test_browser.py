"""The page in headless Chromium: drawn, hovered, switched, silent on the console and on the network."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from analysis import report

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next((p for p in ("/usr/bin/chromium", shutil.which("chromium"), shutil.which("google-chrome")) if p
                 and Path(p).exists()), None)  # fmt: skip
QUIET = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--disable-gpu"]  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: install Debian's chromium package"),
]


@pytest.fixture(scope="module")
def page(smoke, tmp_path_factory):
    path = report.write("smoke", smoke, tmp_path_factory.mktemp("page"), figures=False)
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET, chromium_sandbox=False)
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.said.append(f"error: {error}"))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector('html[data-ready="true"]', state="attached", timeout=120_000)
        yield page
        browser.close()


def visible_traces(page, chart, panel=0):
    return page.evaluate(
        """([chart, panel]) => document.querySelector(`.plot[data-chart=${chart}][data-panel="${panel}"]`)
        .data.filter(t => t.visible !== false).map(t => t.name)""",
        [chart, panel],
    )


def test_every_figure_is_drawn(page):
    empty = page.evaluate(
        """() => [...document.querySelectorAll('.plot')].filter(plot => !plot.querySelector('.main-svg')
        || plot.querySelectorAll('.scatterlayer path, .barlayer path, .heatmaplayer image, .heatmaplayer path').length
        === 0).map(plot => plot.dataset.chart)"""
    )
    assert empty == []
    assert page.locator(".plot").count() > 25


def test_hover_names_arm_and_value(page):
    plot = page.locator('.plot[data-chart="entropy"][data-panel="0"]')
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector('.plot[data-chart="entropy"][data-panel="0"] .hoverlayer text', timeout=5000)
    text = plot.locator(".hoverlayer").text_content()
    assert "mean (GRPO)" in text
    assert "QAE K=0.4" in text
    assert re.search(r"0\.\d", text)
    assert text.startswith("training step ")
    box = plot.locator(".hoverlayer .legend .bg").first  # behind the words, over the lines
    opaque = box.evaluate("e => [getComputedStyle(e).fill, getComputedStyle(e).fillOpacity]")
    assert opaque == ["rgb(255, 255, 255)", "0.95"]


def test_a_success_rate_s_axis_follows_its_values_up_to_one_hundred(page):
    low, high = page.evaluate(
        """() => document.querySelector('.plot[data-chart="pass_at_k"][data-panel="1"]')._fullLayout.yaxis.range"""
    )
    assert low > 20
    assert high <= 100


def test_long_names_do_not_widen_a_narrow_page(page, smoke, tmp_path):
    long = [replace(run, config={}, label=f"logs_of_a_very_long_experiment_name_that_never_breaks_{run.id}",
                    folder=None, notes=("lost",)) for run in smoke]  # fmt: skip
    path = report.write("long", long, tmp_path, figures=False)
    narrow = page.context.browser.new_page(viewport={"width": 400, "height": 900})
    narrow.goto(path.as_uri())
    assert narrow.evaluate("document.documentElement.scrollWidth") == 400
    narrow.close()


def test_an_arm_is_hidden_in_every_figure_and_comes_back(page):
    arm = "QAE K=0.4 · tiny (0.3M) · 3 seeds"
    switch = page.locator(f'#entropy .legend button[data-arm="{arm}"]')
    for chart in ("entropy", "pass_at_k", "k_sensitivity", "words"):
        assert arm in visible_traces(page, chart)
    switch.click()
    page.wait_for_timeout(300)
    for chart in ("entropy", "pass_at_k", "k_sensitivity", "words"):
        assert arm not in visible_traces(page, chart)
        assert len(visible_traces(page, chart)) >= 2
    pressed = page.locator(f'.legend button[data-arm="{arm}"]').evaluate_all(
        "all => all.map(b => b.getAttribute('aria-pressed'))"
    )
    assert set(pressed) == {"false"}
    switch.click()
    page.wait_for_timeout(300)
    assert arm in visible_traces(page, "pass_at_k")


def test_logarithmic_axis_and_back(page):
    axis = "document.querySelector('.plot[data-chart=entropy]')._fullLayout.yaxis"
    button = page.locator("#entropy button.log")
    for expected in ("log", "linear"):
        button.click()
        page.wait_for_timeout(500)
        assert page.evaluate(f"{axis}.type") == expected
    assert page.evaluate(f"{axis}.range[0]") == 0


@pytest.mark.parametrize("width", [1400, 800, 420])
def test_nothing_overflows_the_window(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(500)
    over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    page.set_viewport_size({"width": 1400, "height": 900})
    assert over <= 0


def test_titles_are_not_cut_off(page):
    """The text of every title lies within its plot."""
    cut = page.evaluate(
        """() => [...document.querySelectorAll('.plot')].filter(plot => {
            const title = plot.querySelector('.gtitle');
            if (!title) return false;
            const a = title.getBoundingClientRect(), b = plot.getBoundingClientRect();
            return a.right > b.right + 1 || a.left < b.left - 1;
        }).map(plot => plot.dataset.chart)"""
    )
    assert cut == []


def test_console_is_silent_and_no_request_leaves_the_page(page):
    assert [line for line in page.said if not line.startswith(("info", "log", "debug"))] == []
    assert [url for url in page.asked if not url.startswith(("file://", "data:", "blob:"))] == []
