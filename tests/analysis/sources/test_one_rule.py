"""One history gives one frame and the same notes, whatever it was logged to."""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.run import Run
from analysis.sources import console, csvlog, local, store
from tests.support import wandb_log
from tests.support.wandb_server import KEY, WandbServer

Row = dict[str, float]
"""`training/global_step` and the metrics of one call of `log`."""
STEP = "training/global_step"
ID = "00000000aa"


@dataclass(frozen=True)
class History:
    """What the attempts of a run logged, and what must come out of it."""

    attempts: list[list[Row]]
    entropy: dict[int, float]
    """Step -> the value that counts."""
    notes: tuple[str, ...] = ()
    accuracy: dict[int, float] | None = None


def train(first: int, last: int, value: float, every: int = 1, **more: float) -> list[Row]:
    steps = range(first, last + 1, every)
    return [{STEP: s, "actor/entropy": value + 1 / s, "critic/rewards/mean": value, **more} for s in steps]


def evaluation(step: int, score: float) -> Row:
    return {STEP: step, "val-core/x/acc/mean@8": score}


def curve(*parts: tuple[int, int, float], every: int = 1) -> dict[int, float]:
    return {s: value + 1 / s for first, last, value in parts for s in range(first, last + 1, every)}


HISTORIES = {
    "an evaluation logged late": History(
        [[*train(1, 12, 1), evaluation(10, 0.5), *train(13, 20, 1)]], curve((1, 20, 1)), (), {10: 0.5}
    ),
    "an evaluation logged at the very end": History(
        [[*train(1, 60, 1), evaluation(31, 0.5)]], curve((1, 60, 1)), (), {31: 0.5}
    ),
    "evaluations that overtake each other": History(
        [[*train(1, 12, 1), evaluation(10, 0.5), evaluation(5, 0.4), evaluation(10, 0.6), *train(13, 14, 1)]],
        curve((1, 14, 1)),
        ("1 value was logged again at the same step: the later one stays",),
        {10: 0.6, 5: 0.4},
    ),
    "resumed from a checkpoint": History(
        [train(1, 27, 1), train(21, 40, 2)],
        curve((1, 20, 1), (21, 40, 2)),
        ("resumed at step 21: 7 earlier rows from there on were undone",),
    ),
    "resumed, and an evaluation of an earlier step comes after that": History(
        [[*train(1, 27, 1), evaluation(25, 0.1)], [evaluation(20, 0.3), *train(21, 30, 2), evaluation(10, 0.2)]],
        curve((1, 20, 1), (21, 30, 2)),
        ("resumed at step 21: 8 earlier rows from there on were undone",),
        {20: 0.3, 10: 0.2},
    ),
    "resumed cleanly": History([train(1, 20, 1), train(21, 30, 2)], curve((1, 20, 1), (21, 30, 2))),
    "resumed cleanly, the first rows repeated as they were": History(
        [train(1, 20, 1), [*train(1, 20, 1), *train(21, 30, 2)]], curve((1, 20, 1), (21, 30, 2))
    ),
    "resumed, some rows repeated as they were": History(
        [train(1, 23, 1), [*train(11, 20, 1), *train(21, 30, 2)]],
        curve((1, 20, 1), (21, 30, 2)),
        ("resumed at step 21: 3 earlier rows from there on were undone",),
    ),
    "started again": History(
        [train(1, 12, 1), train(1, 8, 2)],
        curve((1, 8, 2)),
        ("started again at step 1: 12 earlier rows from there on were undone",),
    ),
    "a lost attempt between two": History(
        [train(1, 20, 1), train(51, 80, 2)],
        curve((1, 20, 1), (51, 80, 2)),
        ("steps 21 to 50 are missing: elsewhere there is a row every step",),
    ),
    "a lost attempt of a log with a row every ten steps": History(
        [train(10, 100, 1, 10), train(150, 200, 2, 10)],
        {**curve((10, 100, 1), every=10), **curve((150, 200, 2), every=10)},
        ("steps 110 to 140 are missing: elsewhere there is a row every 10 steps",),
    ),
    "two processes, the second a step behind": History(
        [[row for s in range(1, 14) for g, v in ((s, 1), (s - 1, 3)) if 1 <= g <= 12 for row in train(g, g, v)]],
        curve((1, 12, 3)),
        (
            "the step goes back 11 times in 24 rows: several processes wrote this log",
            "24 values were logged again at the same step: the later ones stay",
        ),
    ),
    "what is no number": History(
        [[*train(1, 4, 1), *train(5, 5, math.nan), *train(6, 6, math.inf)], train(4, 8, 2)],
        curve((1, 3, 1), (4, 8, 2)),
        ("resumed at step 4: 3 earlier rows from there on were undone",),
    ),
    "a diverged end, and keys in another order": History(
        [[*train(1, 4, 1), *(dict(reversed(row.items())) for row in train(5, 6, math.nan))]],
        {**curve((1, 4, 1)), 5: math.nan, 6: math.nan},
    ),
}
NAMES = {name: f"h{number:02}" for number, name in enumerate(HISTORIES)}

LOGGER = """
import json, sys, time, wandb
for attempt in json.load(open(sys.argv[1])):
    for name, rows in attempt.items():
        run = wandb.init(project="demo", entity="lab", id=name, mode="offline", dir=sys.argv[2], resume="allow",
                         settings=wandb.Settings(console="off", silent=True, x_disable_meta=True, x_disable_stats=True))
        run.define_metric("training/global_step")
        run.define_metric("*", step_metric="training/global_step")
        for row in rows:
            run.log(row)
        run.finish()
    time.sleep(1.1)  # folders are named by the second
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The histories as the real client logs them offline: a folder an attempt."""
    root = tmp_path_factory.mktemp("logged")
    most = max(len(history.attempts) for history in HISTORIES.values())
    plan = [
        {NAMES[name]: h.attempts[number] for name, h in HISTORIES.items() if number < len(h.attempts)}
        for number in range(most)
    ]
    (root / "plan.json").write_text(json.dumps(plan))
    command = [sys.executable, "-c", LOGGER, str(root / "plan.json"), str(root)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "WANDB_MODE": "offline"})
    return root


@pytest.fixture(scope="module")
def remote(folder, tmp_path_factory) -> dict[str, Run]:
    """The same through a server: uploaded by the real client as it does by itself, read through its API."""
    from analysis.sources import api

    with WandbServer() as server:
        own = {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": KEY, "HOME": str(tmp_path_factory.mktemp("home"))}
        command = [sys.executable, "-m", "wandb", "sync", "--yes"]
        command += sorted(str(path) for path in (folder / "wandb").glob("offline-run-*"))
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **own}, cwd=folder)
        return {run.id: run for run in api.load("lab/demo", base_url=server.url, key=KEY)}


def by_wandb_file(attempts: list[list[Row]], root: Path) -> Run:
    for number, rows in enumerate(attempts):
        records = [wandb_log.history(row, step) for step, row in enumerate(rows)]
        stamp = f"20260101_0000{number:02}"
        wandb_log.write(root, ID, [wandb_log.run(ID, 100 + number), *records, wandb_log.leave()], stamp)
    (run,) = local.load(root)
    return run


def by_csv(attempts: list[list[Row]], root: Path) -> Run:
    rows = [row for attempt in attempts for row in attempt]
    names = list(dict.fromkeys(name for row in rows for name in row))
    path = root / "log.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["step", *names])
        writer.writeheader()
        writer.writerows({"step": row[STEP], **row} for row in rows)
    (run,) = csvlog.load(path)
    return run


def by_console(attempts: list[list[Row]], root: Path) -> Run:
    lines = [
        f"step:{row[STEP]} - " + " - ".join(f"{name}:{value!r}" for name, value in row.items())
        for attempt in attempts
        for row in attempt
    ]
    path = root / "console.log"
    path.write_text("\n".join(["Traceback of nothing", *lines]) + "\n")
    (run,) = console.load(path)
    return run


def by_harness(attempts: list[list[Row]], root: Path) -> Run:
    run = root / ID
    run.mkdir()
    (run / "spec.json").write_text(json.dumps({"id": ID, "label": "a", "config": {"steps": 5}, "verl": {}}))
    lines = [
        json.dumps({"step": row[STEP], "time": 1e9, "attempt": number, "metrics": row})
        for number, attempt in enumerate(attempts, 1)
        for row in attempt
    ]
    (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return store.load_run(run)


READERS = {"local": by_wandb_file, "csv": by_csv, "console": by_console, "harness": by_harness}


def content(run: Run) -> tuple[pd.DataFrame, Any, tuple[str, ...]]:
    """Frame (without W&B's clocks, which no other log has), steps of real NaN, notes."""
    names = sorted(name for name in run.history.columns if not name.startswith("_"))
    nans = {name: steps for name, steps in run.nan_steps.items() if not name.startswith("_")}
    return run.history[names], nans, run.notes


def check(run: Run, history: History) -> None:
    wanted = frame_of(history)
    pd.testing.assert_frame_equal(content(run)[0], wanted, check_exact=True)
    entropy = run.metric("actor/entropy")
    assert entropy.to_dict() == pytest.approx(history.entropy, nan_ok=True)
    assert run.nan_steps.get("actor/entropy", ()) == tuple(s for s, v in history.entropy.items() if math.isnan(v))
    found = run.metric("val-core/x/acc/mean@8").to_dict() if run.has("val-core/x/acc/mean@8") else None
    assert found == history.accuracy
    assert run.notes == history.notes


def frame_of(history: History) -> pd.DataFrame:
    """The frame by hand: entropy and rewards of the curve, accuracies beside them."""
    steps = sorted({*history.entropy, *(history.accuracy or {})})
    data: dict[str, Any] = {
        "actor/entropy": [history.entropy.get(s, math.nan) for s in steps],
        "critic/rewards/mean": [history.entropy.get(s, math.nan) - 1 / s for s in steps],
        "step": steps,
        STEP: [float(s) for s in steps],
    }
    if history.accuracy is not None:
        data["val-core/x/acc/mean@8"] = [history.accuracy.get(s, math.nan) for s in steps]
    frame = pd.DataFrame(data)
    frame["critic/rewards/mean"] = frame["critic/rewards/mean"].round(6)
    return frame


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("reader", READERS)
def test_a_history_is_read_alike_from_every_kind_of_file(name, reader, tmp_path):
    check(READERS[reader](HISTORIES[name].attempts, tmp_path), HISTORIES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_that_the_real_client_logged_is_read_alike(name, folder):
    runs = {run.id: run for run in local.load(folder)}
    check(runs[NAMES[name]], HISTORIES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_on_a_server_is_read_alike(name, remote):
    check(remote[NAMES[name]], HISTORIES[name])


rows = st.tuples(
    st.integers(0, 12),
    st.dictionaries(
        st.sampled_from(["actor/entropy", "critic/rewards/mean", "val-core/x/acc/mean@8", "aime", "timing_s/step"]),
        st.sampled_from([0.0, 1.0, 2.5, math.nan, math.inf, -math.inf]),
        min_size=1,
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(rows, min_size=1, max_size=12), min_size=1, max_size=4))
def test_any_history_is_read_alike_from_every_kind_of_file(tmp_path_factory, attempts):
    history = [[{STEP: step, **metrics} for step, metrics in attempt] for attempt in attempts]
    found = {}
    for name, reader in READERS.items():
        root = tmp_path_factory.mktemp(name)
        found[name] = content(reader(history, root))
    frame, nans, notes = found.pop("local")
    for other in found.values():
        pd.testing.assert_frame_equal(other[0], frame, check_exact=True)
        assert other[1:] == (nans, notes)
