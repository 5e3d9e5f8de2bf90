"""The page of a K search in headless Chromium: every figure drawn, the axis in order, nothing cut off or overflowing."""

from __future__ import annotations

import pytest

from harness.search import page as searched
from tests.analysis.report.test_browser import CHROMIUM, QUIET, sync_api
from tests.support import search_world
from tests.support.search_world import World, finish, peak

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: install Debian's chromium package"),
]
AXES = {"rank": "all", "recipe.learning_rate": {"type": "float", "low": 1e-7, "high": 1e-5, "log": True}}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    confirm = {"trials": 2, "seeds": 2, "compare": ["mean"]}
    studies = {
        "one": search_world.study(in_flight=3, budget={"runs": 40}, confirm=confirm),
        "two": search_world.study(axes=AXES, in_flight=3, budget={"runs": 24}, confirm=confirm),
        "both": search_world.study(budget={"runs": 30}, objective={"multi": True}, confirm=confirm),
    }
    with sync_api.sync_playwright() as driver, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_RUNS", str(folder / "runs"))
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET, chromium_sandbox=False)
        opened = {}
        for name, study in studies.items():
            world = World(peak(8, 0.03), fails=lambda rank, seed: 99 if rank == 16 else 0)
            view = finish(study, world, folder / f"{name}.log")
            path = searched.write(study, view, [], folder / name, figures=False)
            page = opened[name] = browser.new_page(viewport={"width": 1400, "height": 900})
            page.said = []
            page.on("console", lambda message, page=page: page.said.append(f"{message.type}: {message.text}"))
            page.on("pageerror", lambda error, page=page: page.said.append(f"error: {error}"))
            page.goto(path.as_uri())
            page.wait_for_selector('html[data-ready="true"]', state="attached", timeout=120_000)
        yield opened
        browser.close()


@pytest.mark.parametrize("name", ["one", "two", "both"])
def test_every_figure_has_points_and_nothing_overflows(pages, name):
    page = pages[name]
    empty = page.evaluate(
        "() => [...document.querySelectorAll('.plot')].filter(p => !p.querySelectorAll('.scatterlayer path.point')"
        ".length).map(p => p.dataset.chart)"
    )
    assert empty == []
    for width in (1400, 420):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    page.set_viewport_size({"width": 1400, "height": 900})
    assert [line for line in page.said if not line.startswith(("info", "log", "debug"))] == []


def test_ranks_stand_in_order_from_left_to_right(pages):
    labels = pages["one"].evaluate(
        "() => [...document.querySelectorAll('.plot[data-chart=search_rank][data-panel=\"0\"] .xtick text')]"
        ".map(t => [t.getBoundingClientRect().x, parseInt(t.querySelector('tspan').textContent)])"
    )
    ranks = [rank for _, rank in sorted(labels)]
    assert ranks == sorted(ranks)
    assert 7 in ranks
    assert (
        pages["two"].evaluate(
            "document.querySelector('.plot[data-chart=search_recipe_learning_rate]')._fullLayout.xaxis.type"
        )
        == "log"
    )


def test_no_two_labels_of_an_axis_overlap(pages):
    overlapping = """() => [...document.querySelectorAll('.plot')].flatMap(plot => {
        const boxes = [...plot.querySelectorAll('.xtick text')].map(t => t.getBoundingClientRect());
        return boxes.filter((a, i) => boxes.some((b, j) => j > i && a.left < b.right && b.left < a.right
            && a.top < b.bottom && b.top < a.bottom)).map(() => plot.dataset.chart)})"""
    for name, page in pages.items():
        assert page.evaluate(overlapping) == [], name
