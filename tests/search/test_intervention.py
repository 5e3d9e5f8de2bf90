"""`harness status`, `logs`, `cancel`, `retry` and `plan` on a study and on runs of one."""

from __future__ import annotations

import dataclasses
import json
import os
import time

import pytest

from harness import cli, files
from harness.errors import HarnessError
from harness.search import intervention, loop
from harness.search import journal as records
from harness.search.controller import Controller
from harness.search.journal import Journal
from harness.store.runs import Store
from tests.search.test_loop import Lab, until
from tests.support import search_world
from tests.support.search_world import World, finish, peak

pytestmark = pytest.mark.slow  # many trials, models or processes

FOUR = {"rank": {"K": [0.2, 0.4, 0.6, 0.8]}}
SMALL = {"budget": {"runs": 14}, "seeds": {"most": 2}, "confirm": {"trials": 2, "seeds": 2, "compare": []}}


def small(**rules):
    return search_world.study(axes=FOUR, **{**SMALL, **rules})


@dataclasses.dataclass
class Mended(World):
    """A world whose failures are forgiven when somebody mends their cause."""

    def mend(self) -> None:
        self.fails = lambda rank, seed: 0
        for run in self.runs.values():
            run.failures = 0


def test_a_study_in_which_everything_failed_goes_on_after_a_retry(tmp_path):
    world, study, path = Mended(peak(10, 0.05), fails=lambda rank, seed: 99), small(), tmp_path / "journal.log"
    assert finish(study, world, path).over == "no trial gave a value"
    world.mend()
    view = finish(study, world, path)
    assert view.over == "done"
    assert next(t for t in view.trials if t.number == view.winner).cell["rank"] == 10
    old, new = view.trials[:4], view.trials[4:]
    assert [t.status for t in old] == ["failed"] * 4
    assert [t.cell for t in new] == [t.cell for t in old]
    assert all("tried again as trial" in t.reason and not t.runs for t in old)
    runs = [r.run for t in new for r in t.runs]
    assert len(set(runs)) == len(runs)
    assert view.started <= 14


def test_one_failed_trial_comes_back_while_the_study_goes_on(tmp_path):
    world, study = Mended(peak(10, 0.05), fails=lambda rank, seed: 99 if rank == 10 else 0), small(in_flight=1)
    controller = Controller(study, Journal(study, tmp_path / "journal.log"), world)
    for _ in range(300):
        controller.tick()
        world.advance()
        if any(t.status == "failed" for t in controller.view().trials):
            break
    world.mend()
    view = finish(study, world, tmp_path / "journal.log")
    assert next(t for t in view.trials if t.number == view.winner).cell["rank"] == 10
    assert [t.cell["rank"] for t in view.trials].count(10) == 2


def test_a_kill_while_a_trial_comes_back_loses_nothing(tmp_path, monkeypatch):
    from optuna.storages.journal import JournalFileBackend

    append = JournalFileBackend.append_logs
    for at in range(1, 18):
        world, study, path = Mended(peak(10, 0.05), fails=lambda rank, seed: 99), small(), tmp_path / f"{at}.log"
        finish(study, world, path)
        world.mend()
        count = [0]

        def killing(self, logs, count=count, at=at):
            append(self, logs)
            count[0] += 1
            if count[0] == at:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(JournalFileBackend, "append_logs", killing)
            with pytest.raises(KeyboardInterrupt):
                finish(study, world, path)
        view = finish(study, world, path)
        assert view.over == "done"
        assert sorted(t.cell["rank"] for t in view.trials) == sorted([4, 7, 10, 13] * 2), at


def test_a_study_that_was_cancelled_waits_for_a_persons_word(tmp_path):
    study = small()
    journal = Journal(study, tmp_path / "journal.log")
    controller = Controller(study, journal, World(peak(10)))
    assert controller.resume(by_hand=False)
    journal.set(records.PAUSED, True)
    assert not controller.resume(by_hand=False)
    assert controller.resume(by_hand=True)
    assert controller.resume(by_hand=False)


# ---- with processes


@pytest.fixture
def lab(tmp_path, monkeypatch):
    return Lab(tmp_path, monkeypatch)


def told(capsys, *words):
    code = cli.main(list(words))
    out = capsys.readouterr()
    return code, out.out + out.err


def test_a_study_that_has_not_begun_is_told_apart_from_a_sweep(lab, capsys):
    for verb in ("status", "logs", "cancel", "retry", "gc", "sync"):
        code, text = told(capsys, verb, "s")
        assert (code, text) == (2, f"error: study s has not begun in {lab.runs}: `harness ksearch s`\n")
    assert told(capsys, "sweep", "s") == (2, "error: s is a study, no sweep: `harness ksearch s`\n")
    assert told(capsys, "sweep", "search/s") == (2, "error: search/s is a study, no sweep: `harness ksearch s`\n")
    (lab.sweeps / "a.yaml").write_text("overrides: [steps=4]\n")
    assert "it is a sweep: `harness sweep a`" in told(capsys, "ksearch", "a")[1]
    assert told(capsys, "plan", "s")[0] == told(capsys, "plan", "search/s")[0] == told(capsys, "plan", "a")[0] == 0
    assert not lab.runs.exists()


@pytest.mark.slow
def test_a_failed_study_is_retried_by_its_name_or_by_a_runs(lab, capsys, monkeypatch):
    monkeypatch.setenv("SEARCH_TRAINER", '{"fail": "K=0."}')
    code, output = lab.run()
    assert (code, "over: no trial gave a value" in output) == (1, True)
    store = Store(lab.runs)
    runs = sorted(lab.trained())
    code, text = told(capsys, "status", "s")
    assert "s: 4 failed" in text
    assert "study s, no trial gave a value: trials 2 failed" in text
    assert "4 runs" in told(capsys, "logs", "s")[1]
    assert told(capsys, "logs", runs[0])[0] == 0
    assert "failed    2 seeds without a value" in told(capsys, "plan", "s")[1]
    code, text = told(capsys, "retry", runs[0])
    assert code == 0
    assert f"{runs[0]}  " in text
    assert "`harness ksearch s`, or its next tick, goes on" in text
    assert "4 runs" not in text
    code, text = told(capsys, "retry", "s", "--class", "nan")
    assert text.count("will be tried again") == 4
    attempts = {run: len(store.attempts(run)) for run in runs}
    monkeypatch.setenv("SEARCH_TRAINER", "{}")
    code, output = lab.run()
    assert code == 0, output
    assert "tried again as a new trial" in output
    assert "winner: rank 10" in output
    assert all(store.state(run).kind == "done" and len(store.attempts(run)) == n + 1 for run, n in attempts.items())
    with pytest.raises(HarnessError, match="study s is over, a run that is tried again changes nothing"):
        intervention.retry(store, "s", runs)


@pytest.mark.slow
def test_cancel_stops_the_controller_too_and_cron_waits_for_a_persons_word(lab, capsys, monkeypatch):
    monkeypatch.setenv("SEARCH_TRAINER", '{"step_seconds": 0.5}')
    process = lab.start()
    until(lambda: any(lab.trained().values()))
    run = next(iter(lab.trained()))
    code, text = told(capsys, "cancel", run)
    assert code == 0
    assert "`harness cancel s` stops it as a whole" in text
    code, text = told(capsys, "cancel", "s")
    assert f"process {process.pid}, which carried study s out, was asked to save and stop" in text
    assert "study s is held" in text
    process.communicate(timeout=60)
    assert process.returncode == 130
    before = {run: len(attempts) for run, attempts in lab.trained().items()}
    assert loop.ksearch("s", once=True, report=False, trainer="tests.support.search_trainer") == 0
    assert "study s was cancelled: `harness ksearch s` without --once goes on" in capsys.readouterr().out
    time.sleep(1)
    assert {run: len(attempts) for run, attempts in lab.trained().items()} == before
    assert all(Store(lab.runs).state(run).kind != "running" for run in before)
    code, text = told(capsys, "retry", "s")
    assert "will be tried again" in text
    monkeypatch.setenv("SEARCH_TRAINER", "{}")
    assert loop.ksearch("s", once=True, report=False, trainer="tests.support.search_trainer") == 0
    until(lambda: {run: len(attempts) for run, attempts in lab.trained().items()} != before)
    code, output = lab.run()
    assert "winner: rank 10" in output


def test_a_controller_elsewhere_is_named_and_left_alone(lab, capsys):
    place = lab.runs / "_studies" / "s"
    place.mkdir(parents=True)
    Journal(loop.studies.load("s"), place / "journal.log")
    files.write_json(Store(lab.runs).sweep_file("search/s"), {"points": []})
    claim = {"host": "login9", "boot": "b", "pid": 42, "started": 1, "time": time.time()}
    (place / "claim.json").write_text(json.dumps(claim))
    code, text = told(capsys, "cancel", "s")
    assert code == 2
    assert "study s is carried out by process 42 on login9: stop it there first" in text
    assert os.path.exists(place / "claim.json")
