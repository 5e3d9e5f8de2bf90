"""The rule by which logs are stitched, against its definition said row by row, and against known truth."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from analysis import aliases
from analysis.sources import rows

Log = Sequence[tuple[int, dict[str, float]]]
NAMES = ["actor/entropy", "loss", "lr", "val-core/x/acc/mean@8", "eval/loss", "aime", "timing_s/step", "_timestamp"]


def gathered(log: Log) -> rows.Rows:
    cells = rows.Gather()
    for _, row in log:
        cells.add(row)
    return cells.rows([step for step, _ in log])


def stitched(log: Log) -> tuple[dict[int, dict[str, float]], list[str]]:
    found, notes = rows.stitch([gathered(log)])
    out: dict[int, dict[str, float]] = {int(step): {} for step in found.steps}
    for name, values in found.columns.items():
        for step, value, there in zip(found.steps, values, found.logged(name), strict=True):
            if there:
                out[int(step)][name] = float(value)
    assert found.steps.tolist() == sorted(out)
    return out, notes


def same(one: float | None, other: float | None) -> bool:
    return one == other or (one is not None and other is not None and math.isnan(one) and math.isnan(other))


def merged(log: Iterable[tuple[int, dict[str, float]]]) -> dict[int, dict[str, float]]:
    out: dict[int, dict[str, float]] = {}
    for step, row in log:
        out.setdefault(step, {}).update(row)
    return out


def by_hand(log: Log) -> tuple[dict[int, dict[str, float]], int, int]:
    """The definition: the stitched rows, how many rows were undone, and how many values were overruled."""
    counts = {name: sum(name in row for _, row in log) for name in NAMES if aliases.is_training(name)}
    trained = {name for name, count in counts.items() if count and 2 * count >= max(counts.values())}
    cuts, last = [], {}
    for number, (step, row) in enumerate(log):
        if any(step < last.get(name, step) for name in row if name in trained):
            cuts.append(number)
            last = {}
        last.update({name: step for name in row if name in trained})
    training_rows = sum(any(name in trained for name in row) for _, row in log)
    if len(cuts) >= 3 and training_rows < 3 * len(cuts):
        cuts = []  # two processes take turns
    alive = set(range(len(log)))
    for start, end in zip(cuts, [*cuts[1:], len(log)], strict=False):
        again = merged(log[start:end])
        earlier = [n for n in alive if n < start and log[n][0] >= log[start][0]]
        firsts = [
            step
            for step, row in merged(log[n] for n in sorted(earlier)).items()
            if not all(same(again.get(step, {}).get(name), row[name]) for name in row if name in trained)
        ]
        if firsts:
            alive -= {n for n in earlier if log[n][0] >= min(firsts)}
    left = [log[n] for n in sorted(alive)]
    final = merged(left)
    overruled = sum(
        not same(final[step][name], value) for step, row in left for name, value in row.items() if name[0] != "_"
    )
    return final, len(log) - len(alive), overruled


def count(notes: Sequence[str], pattern: str) -> int:
    return sum(int(found[1]) for note in notes if (found := re.search(pattern, note)))


any_log = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.dictionaries(st.sampled_from(NAMES), st.sampled_from([0.0, 1.0, 2.5, math.nan, math.inf]), min_size=1),
    ),
    max_size=40,
)
# Ascending stretches: what attempts look like.
attempts = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 12), st.sampled_from([0.0, 1.0, 2.0]), st.sets(st.sampled_from(NAMES))),
    max_size=6,
).map(
    lambda parts: [
        (first + i, dict.fromkeys(names | {"loss"}, value + first % 2 * i)) for first, n, value, names in parts
        for i in range(n)
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(any_log | attempts | st.tuples(attempts, any_log).map(lambda both: both[0] + both[1]))
@example([(1, {"loss": 1.0}), (2, {"loss": 1.0}), (1, {"aime": 1.0}), (2, {"loss": math.nan})])
def test_logs_are_stitched_as_defined(log):
    found, notes = stitched(log)
    wanted, undone, overruled = by_hand(log)
    assert repr(sorted((s, sorted(r.items())) for s, r in found.items())) == repr(
        sorted((s, sorted(r.items())) for s, r in wanted.items())
    )
    assert count(notes, r"(\d+) earlier rows?") == undone
    assert count(notes, r"^(\d+) values? w") == overruled
    assert ("nothing was logged" in notes) == (not log)


@st.composite
def trainings(draw: st.DrawFn) -> tuple[Log, dict[int, float], dict[int, float]]:
    """A log of a trainer that is killed and resumed from checkpoints, and the truth: loss and accuracy by step."""
    every = draw(st.integers(1, 4))
    log: list[tuple[int, dict[str, float]]] = []
    shown: list[tuple[int, dict[str, float]]] = []
    loss: dict[int, float] = {}
    accuracy: dict[int, float] = {}
    step = 0
    for attempt in range(draw(st.integers(1, 4))):
        checkpoint = draw(st.integers(0, step // every)) * every if attempt else 0
        repeated = draw(st.integers(0, checkpoint))  # the harness's own: rows that may not be on disk
        # The last step once more could be a second row of that step: no reader can tell.
        assume(checkpoint != step - 1 or repeated < checkpoint)
        shown = [(s, row) for s, row in shown if s <= checkpoint]
        log += [(s, row) for s, row in shown if repeated < s]
        loss = {s: value for s, value in loss.items() if s <= checkpoint}
        accuracy = {s: value for s, value in accuracy.items() if s <= checkpoint}
        step = checkpoint
        late: list[int] = []
        for _ in range(draw(st.integers(5, 12))):
            step += 1
            loss[step] = attempt + step / 1000
            row = {"loss": loss[step], "lr": 1.0}
            calls = [(step, dict(draw(st.permutations(list(row.items())))))]
            calls += [(step, {"grad": 1.0})] * draw(st.booleans())
            log += calls
            shown += calls
            if step % every == 0:
                late.append(step)
            while late and draw(st.booleans()):  # evaluations end in any order, or never
                done = late.pop(draw(st.integers(0, len(late) - 1)))
                accuracy[done] = attempt + done / 10
                log.append((done, {"val-core/x/acc/mean@8": accuracy[done]}))
    return log, loss, accuracy


@settings(max_examples=150, deadline=None)
@given(trainings())
def test_what_was_trained_last_is_what_is_read(training):
    log, loss, accuracy = training
    found, notes = stitched(log)
    assert {step: row["loss"] for step, row in found.items() if "loss" in row} == loss
    read = {step: row["val-core/x/acc/mean@8"] for step, row in found.items() if "val-core/x/acc/mean@8" in row}
    assert read == accuracy
    assert not [note for note in notes if "missing" in note or "logged again" in note or "several" in note]


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 20), st.sets(st.integers(1, 60), min_size=40, max_size=60))
def test_missing_steps_are_named(every, there):
    """Of a log with a row every few steps all stretches without one, and nothing else, between its first and last."""
    steps = np.array(sorted(there)) * every
    assume(2 * (np.diff(steps) == every).sum() >= len(steps) - 1)
    note = rows.missing(steps)
    gone = [s for s in range(int(steps[0]), int(steps[-1]), every) if s not in set(steps.tolist())]
    if not gone:
        assert note is None
        return
    assert note is not None
    stretches = [
        (int(a), int(b or a)) for a, b in re.findall(r"(\d+)(?: to (\d+))?(?=[, ]| and)", note.split(" mis")[0])
    ]
    starts = [s for s in gone if s - every not in gone]
    ends = [s for s in gone if s + every not in gone]
    assert stretches[:3] == list(zip(starts, ends, strict=True))[:3]
    more = len(starts) - 3
    assert ("stretch" in note) == (more > 0)
    assert f"{more} more stretches" in note if more > 1 else "more" not in note


@pytest.mark.parametrize(
    ("steps", "note"),
    [
        ([], None),
        ([7], None),
        ([1, 50], None),  # one distance tells nothing
        ([1, 2, 5, 6], "steps 3 to 4 are missing: elsewhere there is a row every step"),
        ([1, 2, 4, 5], "step 3 is missing: elsewhere there is a row every step"),
        ([0, 10, 20, 34, 44], None),  # every ten steps, counted anew after a resume
        ([1, 3, 10, 11, 40, 42, 55], None),  # no rhythm
        ([10, 20, 30, 70, 80], "steps 40 to 60 are missing: elsewhere there is a row every 10 steps"),
        ([10, 20, 30, 40, 43], None),  # the last row of a training
        ([1, 10, 20, 30], None),
    ],
)
def test_what_counts_as_missing(steps, note):
    assert rows.missing(np.array(steps, dtype=np.int64)) == note


def test_many_restarts_are_told_in_few_notes():
    log = [(s, {"loss": attempt + s / 100}) for attempt in range(9) for s in range(attempt, attempt + 4)]
    assert stitched(log)[1] == [
        "resumed at step 1: 3 earlier rows from there on were undone",
        "resumed at step 2: 3 earlier rows from there on were undone",
        "resumed at step 3: 3 earlier rows from there on were undone",
        "5 more restarts: 15 earlier rows were undone",
    ]


def test_own_steps_have_no_gaps():
    """W&B's own step counts calls: between two calls of training there are those of evaluations."""
    log = gathered([(s, {"loss": 1.0}) for s in (0, 1, 2, 4, 5, 6, 8)])
    assert rows.stitch([log], rows.OWN_STEP)[1] == []
    assert rows.stitch([log])[1] == ["steps 3, 7 are missing: elsewhere there is a row every step"]


def test_charts_kept_side_by_side_do_not_undo_each_other():
    entropy = gathered([(s, {"actor/entropy": 1.0}) for s in (1, 2, 3)])
    reward = gathered([(s, {"reward": 1.0 + n}) for n, s in enumerate((1, 2, 3, 2, 3))])
    found, notes = rows.stitch([entropy, reward])
    assert found.columns["actor/entropy"].tolist() == [1.0] * 3
    assert found.columns["reward"].tolist() == [1.0, 4.0, 5.0]
    assert notes == ["resumed at step 2: 2 earlier rows from there on were undone"]


@pytest.mark.parametrize(
    ("name", "trained"),
    [
        ("actor/entropy", True),
        ("critic/rewards/mean", True),
        ("value/loss", True),
        ("reward_avg", True),
        ("val-core/x/acc/mean@8", False),
        ("val/test_score/x", False),
        ("eval_acc", False),
        ("test/loss", False),
        ("trainer/val_loss", False),
        ("Validation/acc", False),
        ("aime24/pass@8", False),
        ("timing_s/step", False),
        ("training/global_step", False),
        ("_timestamp", False),
    ],
)
def test_which_names_are_of_training(name, trained):
    assert aliases.is_training(name) == trained
