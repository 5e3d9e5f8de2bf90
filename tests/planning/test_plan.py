from __future__ import annotations

import shutil

import pytest

from harness import cli
from harness.config import grid
from harness.errors import HarnessError
from harness.planning.plan import check_compared, summary
from tests.support.lab import Lab

STUDY = """
overrides: [cluster.fork_server=false, steps=4, save_every=2, evaluation.every=2, recipe.group_size=16]
grid:
  - baseline: mean
  - {baseline: qae, baseline.K: [0.4, 0.43, 0.8]}
seeds: [1]
"""


def actions(entries):
    return [(e.action, e.reason) for e in entries]


def test_a_plan_changes_nothing_and_two_K_of_one_rank_are_one_run(lab):
    lab.sweep(STUDY)
    entries = lab.plan()
    assert actions(entries) == [
        ("add", "new"),
        ("add", "new"),
        ("same", "the same experiment as K=0.4: both have rank 7 of 16 (only ceil(K*G) matters)"),
        ("add", "new"),
    ]
    assert entries[1].id == entries[2].id
    assert summary(entries) == "3 to add, 1 the same as another"
    assert not lab.runs.exists()


def test_linear_interpolation_tells_every_K_apart(lab):
    lab.sweep(STUDY.replace("baseline: qae,", "baseline: qae, baseline.interpolation: linear,"))
    assert [e.action for e in lab.plan()] == ["add"] * 4


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A store in which the study is done, made once."""
    with pytest.MonkeyPatch.context() as patch:
        made = Lab(tmp_path_factory.mktemp("done"), patch)
        made.sweep(STUDY)
        assert made.apply() == 0
    return made.runs


@pytest.fixture
def done_lab(lab, done):
    """A store of the test's own in which the study is done."""
    lab.sweep(STUDY)
    shutil.copytree(done, lab.runs)
    return lab


def test_done_points_are_kept_and_an_edited_grid_adds_what_is_new(done_lab):
    assert [e.action for e in done_lab.plan()] == ["keep", "keep", "same", "keep"]
    done_lab.sweep(STUDY.replace("0.8", "0.8, 0.2"))
    assert [e.action for e in done_lab.plan()] == ["keep", "keep", "same", "keep", "add"]


@pytest.mark.slow
def test_a_failed_run_is_retried_with_its_reason(lab):
    lab.sweep(STUDY)
    lab.wish(fail="K=0.8")
    assert lab.apply() == 1
    entry = lab.plan()[3]
    assert entry.action == "retry"
    assert entry.reason.startswith("failed: not a number: ValueError: loss is nan at step 1; no checkpoint yet")
    lab.wish()
    assert lab.apply() == 0
    assert [e.action for e in lab.plan()] == ["keep", "keep", "same", "keep"]


@pytest.mark.parametrize(
    "change",
    ["cluster.hang_minutes=3", "tracking=none", "save_every=1", "verl.actor_rollout_ref.rollout.max_num_seqs=64"],
)
def test_what_is_no_science_keeps_the_identity(lab, change):
    lab.sweep(STUDY)
    before = [e.id for e in lab.plan()]
    lab.sweep(STUDY.replace("steps=4,", f"steps=4, {change},"))
    assert [e.id for e in lab.plan()] == before


@pytest.mark.parametrize(
    "change",
    ["seed=1", "steps=5", "recipe=dapo", "model=small", "evaluation.samples=32", "recipe.learning_rate=0.5",
     "verl.actor_rollout_ref.actor.optim.weight_decay=0.5"],
)  # fmt: skip
def test_what_is_science_makes_another_run(lab, change):
    lab.sweep(STUDY.replace("seeds: [1]", "seeds: [2]"))
    before = {e.id for e in lab.plan()}
    lab.sweep(STUDY if change == "seed=1" else STUDY.replace("steps=4,", f"steps=4, {change},"))
    assert before.isdisjoint(e.id for e in lab.plan())


def test_a_point_that_does_not_compose_is_named(lab):
    lab.sweep(STUDY.replace("0.43", "1.43"))
    with pytest.raises(
        HarnessError, match=r"sweep study, point baseline=qae baseline\.K=1\.43 seed=1: baseline\.K=1\.43"
    ):
        lab.plan()


def test_a_damaged_run_folder_is_named_and_nothing_is_lost(done_lab):
    run = done_lab.plan()[0].id
    spec = done_lab.runs / run / "spec.json"
    good = spec.read_text()
    spec.write_text(good[:100])
    with pytest.raises(HarnessError, match=rf"{run}/spec\.json is damaged"):
        done_lab.plan()
    spec.unlink()
    with pytest.raises(HarnessError, match=r"spec\.json is missing: restore it, or move .* away"):
        done_lab.plan()
    spec.write_text(good)
    assert done_lab.plan()[0].action == "keep"
    shutil.rmtree(done_lab.runs / run)
    assert done_lab.plan()[0].action == "add"


@pytest.mark.slow
@pytest.mark.parametrize("left", [(), ("uncommitted.diff",), (".spec.json.abc.tmp", "events.jsonl"), (".lock",)])
def test_a_kill_while_a_run_is_frozen_leaves_nothing_in_the_way(lab, left):
    lab.sweep("overrides: [steps=4, save_every=2, evaluation.every=2]\n")
    run = lab.plan()[0].id
    (lab.runs / run).mkdir(parents=True)
    for name in left:
        (lab.runs / run / name).write_text("{")
    assert lab.store.state(run).kind == "absent"
    assert lab.apply() == 0
    assert lab.store.state(run).kind == "done"


@pytest.mark.parametrize("content", ["[1]", "null", '{"step": "x"}', '{"step": 1e999}', '{"metrics": [1]}', "\x00"])
def test_a_damaged_heartbeat_counts_as_none(done_lab, content):
    run = done_lab.plan()[0].id
    (done_lab.runs / run / "heartbeat.json").write_text(content)
    assert done_lab.store.heartbeat(run) == {}
    assert done_lab.plan()[0].reason == "done, 4 of 4 steps"


DAMAGE = [
    ("done.json", "[1]"), ("done.json", "null"), ("done.json", '{"step": "x"}'), ("done.json", '{"evaluations": 7}'),
    ("spec.json", '{"id": 1}'), ("spec.json", "[1]"), ("attempts/001/attempt.json", "[1]"),
    ("attempts/001/attempt.json", "null"),
]  # fmt: skip


@pytest.mark.parametrize("name, content", DAMAGE)
def test_a_file_of_another_shape_is_named_and_kept(done_lab, name, content):
    run = done_lab.plan()[0].id
    (done_lab.runs / run / name).write_text(content)
    with pytest.raises(HarnessError, match=rf"{run}/{name} .*(restore it|move)"):
        done_lab.plan()
    assert (done_lab.runs / run / name).read_text() == content


def test_the_number_of_an_attempt_is_its_folders(done_lab):
    run = done_lab.plan()[0].id
    (done_lab.runs / run / "attempts" / "001" / "attempt.json").write_text("{}")
    assert [record["attempt"] for record in done_lab.store.attempts(run)] == [1]


@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "a folder"])
def test_a_done_run_whose_last_evaluation_is_lost_is_named(done_lab, damage):
    run = done_lab.plan()[0].id
    path = done_lab.runs / run / "outcomes" / "eval" / "step_000004.parquet"
    content = path.read_bytes()
    path.unlink()
    if damage == "a folder":
        path.mkdir()
    elif damage != "gone":
        path.write_bytes(b"" if damage == "empty" else content[:5])
    with pytest.raises(HarnessError, match=r"step_000004\.parquet is missing or damaged, although the run was done"):
        done_lab.plan()
    assert (
        done_lab.store.state(run).kind == "done"
    )  # `harness eval` draws it again, `harness status` goes on showing it


@pytest.mark.parametrize("content", ["[1]", "null", "{}", '{"points": 7}', '{"points": [{}]}'])
def test_a_damaged_record_of_a_sweep_is_named(done_lab, content):
    from harness.store.runs import ids_of

    (done_lab.runs / "_sweeps" / "study.json").write_text(content)
    with pytest.raises(HarnessError, match=r"study\.json is damaged"):
        ids_of(done_lab.store, "study")
    assert done_lab.apply() == 0
    assert len(ids_of(done_lab.store, "study")) == 3


@pytest.mark.parametrize(
    ("against", "message"),
    [
        ("maen", "compare.against 'maen': no such arm; did you mean mean"),
        ("rloo", "compare.against 'rloo': no such arm"),
        ("{baseline.name: mean, recipe.clip_high: 0.5}", "compare.against .*no arm has these settings"),
    ],
)
def test_a_comparison_with_an_arm_that_the_sweep_lacks_is_refused(lab, against, message):
    lab.sweep(f"overrides: [steps=4]\ngrid: [{{baseline: [mean, qae]}}]\ncompare: {{against: {against}}}\n")
    with pytest.raises(HarnessError, match=message):
        check_compared(grid.load("study"), lab.plan())
    check_compared(grid.load("study"), lab.plan(), ["baseline=rloo"])  # the command line wins over the file
    assert cli.main(["plan", "study"]) == 2
    assert cli.main(["sweep", "study"]) == 2
    assert not lab.runs.exists()


@pytest.mark.parametrize(
    "against",
    [
        "mean",
        "QAE K=0.4",
        "{baseline.name: qae}",
        "{baseline.K: 0.4}",
        "{verl.actor_rollout_ref.actor.use_kl_loss: false}",
    ],
)
def test_a_comparison_with_an_arm_of_the_sweep_is_planned(lab, against):
    lab.sweep(f"overrides: [steps=4]\ngrid: [{{baseline: [mean, qae]}}]\ncompare: {{against: {against}}}\n")
    check_compared(grid.load("study"), lab.plan())
