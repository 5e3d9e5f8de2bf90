from __future__ import annotations

import math
import random
import textwrap

import numpy as np
import pytest

from analysis.sources import console
from harness.errors import HarnessError

METRICS = {
    "actor/entropy": 0.4123456789,
    "actor/kl_loss": -1.25e-06,
    "critic/score/mean": np.float64(0.5),
    "val-core/arith/acc/mean@16": 1,
    "training/global_step": 12,
    "perf/max_memory_allocated_gb": 0,
    "response_length/clip_ratio": np.float32(0.0),
    "timing_s/step": 1e16,
    "a": math.nan,
    "b": -math.inf,
    "flag": True,
}


def message(step: int, metrics=None) -> str:
    """As verl's console logger writes it."""
    return " - ".join([f"step:{step}", *(f"{name}:{value!r}" for name, value in (metrics or METRICS).items())])


def write(tmp_path, text: str, name="run.log"):
    path = tmp_path / name
    path.write_text(text)
    return path


def expected(run, step: int = 12):
    for name, value in METRICS.items():
        np.testing.assert_equal(run.metric(name)[step], float(value), err_msg=name)
    assert len(run.metrics) == len(METRICS)


def test_a_plain_line(tmp_path):
    (run,) = console.load(write(tmp_path, f"starting\n{message(12)}\nbye: 1 - 2\n"))
    expected(run)
    assert (run.id, run.source, run.notes) == ("run", "console", ())
    assert run.nan_steps == {"a": (12,)}


@pytest.mark.parametrize(
    "frame",
    [
        "\x1b[36m(TaskRunner pid=1234)\x1b[0m {}",
        "\x1b[36m(TaskRunner pid=1234, ip=10.0.0.7)\x1b[0m {} [repeated 3x across cluster]",
        "(pid=77) {}",
        "Training Progress:  30%|███       | 12/40 [00:20<00:47,  1.71s/it]\r{}",
        "[2026-01-01 10:00:00,123][INFO] {}",
        "0: \x1b[1;32m{}\x1b[0m",
    ],
)
def test_what_stands_around_a_line(tmp_path, frame):
    (run,) = console.load(write(tmp_path, frame.replace("{}", message(12)) + "\n(TaskRunner pid=1234) done: 3\n"))
    expected(run)
    assert run.notes == ()


@pytest.mark.parametrize("width", [40, 57, 80, 81, 100, 120, 200])
@pytest.mark.parametrize(("prefix", "shown"), [("", ""), ("\x1b[36m(TaskRunner pid=9)\x1b[0m ", "(TaskRunner pid=9) ")])
def test_lines_that_a_terminal_broke_anywhere(tmp_path, width, prefix, shown):
    generator = random.Random(width)
    lines, truth = [], {}
    for step in range(1, 40):
        metrics = {f"group/metric_{i}": generator.gauss(0, 1) * 10 ** generator.randint(-9, 9) for i in range(20)}
        truth[step] = metrics
        text = shown + message(step, metrics)
        lines += [prefix + text[len(shown) : width], *(text[i : i + width] for i in range(width, len(text), width))]
        lines += ["INFO: loading weights"]
    (run,) = console.load(write(tmp_path, "\n".join(lines)))
    for name in truth[1]:
        assert run.metric(name).to_dict() == {step: metrics[name] for step, metrics in truth.items()}
    assert len(run.metrics) == 20


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_that_were_broken_at_blanks(tmp_path, width):
    text = "\n".join(textwrap.wrap(message(12), width, break_long_words=False, break_on_hyphens=False))
    (run,) = console.load(write(tmp_path, text + "\nother output\n"))
    expected(run)


def test_other_output_is_not_joined(tmp_path):
    text = f"{message(12)}\n42\nepoch: 3\nloss:0.5\n- item: 1 of 2\n{message(13)}\n"
    (run,) = console.load(write(tmp_path, text))
    expected(run)
    assert run.history["step"].tolist() == [12, 13]


def test_progress_bars_between_messages(tmp_path):
    """tqdm ends no line: the next message follows its bar directly, as in real logs of verl."""
    bar = "\rTraining Progress:  17%|█▋        | {}/6 [00:03<00:16,  3.28s/it]"
    text = "".join(message(step) + "\n" + bar.format(step) for step in (11, 12, 13))
    (run,) = console.load(write(tmp_path, text))
    expected(run)
    assert run.history["step"].tolist() == [11, 12, 13]


def test_restart_and_repeated_steps(tmp_path):
    lines = [message(s, {"training/global_step": s, "x": 1}) for s in range(1, 8)]
    lines += [message(5, {"val": 0.3})]
    lines += [message(s, {"training/global_step": s, "x": 2}) for s in range(6, 9)]
    (run,) = console.load(write(tmp_path, "\n".join(lines)))
    assert run.metric("x").tolist() == [1] * 5 + [2] * 3
    assert run.metric("val").to_dict() == {5: 0.3}
    assert "resumed at step 6: 2 earlier rows from there on were undone" in run.notes


def test_what_cannot_be_read_is_counted(tmp_path):
    (run,) = console.load(write(tmp_path, "step:1 - a:1 - b:<object at 0x1> - c:3\nstep:2 - a:2 - b:\n"))
    assert run.metric("a").tolist() == [1, 2]
    assert run.metric("c").tolist() == [3]
    assert run.notes == ("run.log: 2 entries could not be read (torn or mixed with other output)",)


def test_a_folder_of_logs_and_a_file_without_metrics(tmp_path):
    write(tmp_path, message(1), "a.out")
    write(tmp_path, message(1), "b.log")
    write(tmp_path, "Traceback (most recent call last):", "c.log")
    runs = console.load(tmp_path)
    assert {run.id: run.notes for run in runs} == {"a": ("left out, without a `step:N` line: c.log",), "b": ()}
    with pytest.raises(HarnessError, match="trainer.logger"):
        console.load(tmp_path / "c.log")
    with pytest.raises(HarnessError, match="cannot be read"):
        console.load(tmp_path / "absent.log")


def test_lines_that_ray_prefixed_one_by_one(tmp_path):
    ray = "\x1b[36m(TaskRunner pid=9)\x1b[0m "
    pieces = textwrap.wrap(message(12), 60, break_long_words=False, break_on_hyphens=False)
    (run,) = console.load(write(tmp_path, "\n".join(ray + piece for piece in pieces) + f"\n{ray}done\n"))
    expected(run)


def test_a_step_beyond_what_a_step_can_be_is_counted_as_damage(tmp_path):
    (run,) = console.load(write(tmp_path, "step:99999999999999999999999 - a:1\nstep:2 - a:2\n"))
    assert run.metric("a").to_dict() == {2: 2.0}
    assert run.notes == ("run.log: 1 entries could not be read (torn or mixed with other output)",)
