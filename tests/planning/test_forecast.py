from __future__ import annotations

import pytest

from harness import cli, files
from harness.config.grid import load
from harness.errors import HarnessError
from harness.planning import estimates, forecast

STUDY = """
overrides: [cluster=local, model=qwen3_8b_base, steps=100, cluster.time_limit="10:00:00"]
grid: [{baseline: [mean, rloo]}]
seeds: [1]
"""
SHAPELESS = STUDY.replace("steps=100", "steps=100, model.architecture=null")


def trained(lab, run, seconds, step, outcome="stopped"):
    folder = lab.runs / run
    attempt = {"attempt": 1, "started": "2030-01-01T00:00:00+00:00", "host": "h", "pid": 1, "outcome": outcome}
    ended = f"2030-01-01T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}+00:00"
    files.write_json(folder / "attempts" / "001" / "attempt.json", {**attempt, "ended": ended})
    files.write_json(folder / "heartbeat.json", {"time": 0.0, "step": step, "total": 100})


def freeze(lab):
    from harness.config import compose
    from harness.planning import provenance
    from harness.planning.freeze import freeze

    entries = lab.plan()
    project = compose.project_folder()
    freeze(load(str(lab.file())), entries, lab.store, project, provenance.collect(project))
    return [entry.id for entry in entries]


def test_without_runs_and_without_a_shape_the_time_limit_counts(lab, capsys):
    lab.sweep(SHAPELESS)
    hours = forecast.forecast(lab.plan(), lab.store)
    assert [(h.value, h.source) for h in hours.values()] == [(80.0, forecast.LIMIT)] * 2  # 10 h on 8 GPUs
    assert cli.main(["plan", "study"]) == 0
    out = capsys.readouterr().out
    assert "80.0 GPU-h" in out
    assert "to start: about 160 GPU-hours (time limit: one of each run, at most)" in out


def test_measured_step_times_win_and_what_was_trained_is_not_paid_again(lab, capsys):
    lab.sweep(STUDY)
    assert {h.source for h in forecast.forecast(lab.plan(), lab.store).values()} == {forecast.ESTIMATED}
    mean, rloo = freeze(lab)
    trained(lab, mean, seconds=3600, step=50)  # 72 s a step, start-up and saves included
    hours = forecast.forecast(lab.plan(), lab.store)
    assert hours[rloo] == forecast.Hours(16.0, forecast.MEASURED)  # 100 steps on 8 GPUs
    assert hours[mean] == forecast.Hours(8.0, forecast.MEASURED)
    assert forecast.used(lab.plan(), lab.store) == pytest.approx(8.0)
    assert cli.main(["plan", "study"]) == 0
    assert "to start: about 24 GPU-hours (measured: step times of such runs)" in capsys.readouterr().out


@pytest.mark.parametrize(("budget", "refused"), [(31.9, True), (32.1, False)])
def test_a_budget_holds_what_is_used_and_what_is_to_come(lab, budget, refused):
    lab.sweep(STUDY)
    mean, _ = freeze(lab)
    trained(lab, mean, seconds=3600, step=50)
    lab.sweep(f"{STUDY}budget_gpu_hours: {budget}")
    sweep, entries = load(str(lab.file())), lab.plan()
    if refused:
        with pytest.raises(HarnessError, match=r"budget_gpu_hours=31\.9: .* 24 GPU-hours \(measured\), 8 are used"):
            estimates.check_budget(sweep, entries, lab.store)
    else:
        estimates.check_budget(sweep, entries, lab.store)


def test_a_run_without_gpus_costs_none(lab, capsys):
    lab.sweep("overrides: [cluster=local]\nbudget_gpu_hours: 0")
    assert forecast.forecast(lab.plan(), lab.store) == {}
    assert cli.main(["plan", "study"]) == 0
    assert "GPU" not in capsys.readouterr().out
