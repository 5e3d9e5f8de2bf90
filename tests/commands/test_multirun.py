from __future__ import annotations

import time

import pytest

from harness import cli, files
from harness.commands import multirun
from tests.support.lab import FAKE

pytestmark = pytest.mark.slow  # many processes, files or figures

JOBS = [["baseline=mean", "seed=1"], ["baseline=qae", "baseline.K=0.2", "seed=1"], ["baseline=rloo", "seed=1"]]
SHORT = ["steps=4", "save_every=2", "evaluation.every=2", "+cluster.max_runs=2", "cluster.fork_server=false"]
FULL = ["train", "--multirun", "hydra/launcher=harness", "baseline=qae", "baseline.K=0.2,0.4", "seed=1,2"]


def here(*jobs):
    return [["hydra/launcher=harness", "cluster=local", *SHORT, *job] for job in jobs]


def values(returns):
    return [(job.return_value.state, job.status.name) for job in returns]


def test_hydras_own_command_queues_the_grid_and_returns(lab, slurm, capsys):
    assert cli.main([*FULL, "cluster=slurm"]) == 0
    out = capsys.readouterr().out
    assert "4 runs queued as job array 1000" in out
    assert sorted(slurm.jobs) == [f"1000_{i}" for i in range(4)]
    specs = [lab.store.spec(run) for run in lab.store.ids()]
    assert {(s["config"]["baseline"]["K"], s["config"]["seed"]) for s in specs} == {
        (K, seed) for K in (0.2, 0.4) for seed in (1, 2)
    }
    name = specs[0]["sweep"]
    assert name.startswith("multirun-")
    assert len(files.read_json(lab.store.sweep_file(name))["points"]) == 4
    assert cli.main([*FULL, "cluster=slurm"]) == 0  # the same again: the same name, nothing twice
    assert len(slurm.jobs) == 4
    assert cli.main(["status", name]) == 0
    assert "4 queued" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("override", "message"),
    [("baseline.K=0.2,1.4", r"baseline.K=1.4"), ("baseline=qea,mean", "qea"), ("basline.K=1,2", "basline")],
)
def test_a_wrong_override_is_one_line(lab, slurm, capsys, override, message):
    assert cli.main(["train", "--multirun", "hydra/launcher=harness", "cluster=slurm", "baseline=qae", override]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert message in err
    assert slurm.jobs == {}


def test_two_jobs_of_one_experiment_are_one_run(lab, slurm):
    jobs = [["cluster=slurm", "baseline=qae", f"baseline.K={K}"] for K in (0.4, 0.43)]
    returns = multirun.launch(jobs, wait=False, sweep="mine")
    assert values(returns) == [("queued", "COMPLETED")] * 2
    assert len({job.return_value.run for job in returns}) == 1
    assert len(slurm.jobs) == 1


def test_a_lost_job_hides_no_other_result(lab, capsys):
    lab.wish(fail="RLOO")
    returns = multirun.launch(here(*JOBS), wait=True, sweep="mine", trainer=FAKE)
    assert values(returns) == [("done", "COMPLETED"), ("done", "COMPLETED"), ("failed", "COMPLETED")]
    assert "loss is nan" in returns[2].return_value.reason
    assert returns[0].working_dir == str(lab.runs / returns[0].return_value.run)


def test_here_it_returns_at_once_and_the_runs_go_on(lab):
    lab.wish(step_seconds=0.2)
    returns = multirun.launch(here(*JOBS), wait=False, sweep=None, trainer=FAKE)
    assert all(state in ("new", "running") for state, _ in values(returns))
    runs = [job.return_value.run for job in returns]
    deadline = time.monotonic() + 60
    while {lab.store.state(run).kind for run in runs} != {"done"}:
        assert time.monotonic() < deadline, [lab.store.state(run) for run in runs]
        time.sleep(0.2)
    again = multirun.launch(here(*JOBS), wait=True, sweep=None, trainer=FAKE)
    assert values(again) == [("done", "COMPLETED")] * 3
    assert all(len(lab.store.attempts(run)) == 1 for run in runs)


def test_hydras_basic_launcher_trains_one_after_another(lab, monkeypatch):
    from harness.running import apply

    trained = []
    monkeypatch.setattr(apply, "train", lambda overrides: trained.append(overrides) or 0)
    assert cli.main(["train", "-m", "baseline=mean,rloo", "+verl.trainer.balance_batch=False"]) == 0
    assert trained == [[f"baseline={name}", "verl.trainer.balance_batch=False"] for name in ("mean", "rloo")]
