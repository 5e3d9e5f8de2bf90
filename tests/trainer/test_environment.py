from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.trainer import environment
from harness.trainer.environment import Attempt

SPEC = {
    "id": "0123456789",
    "config": {
        "model": {"name": "tiny", "builtin": "tiny"}, "baseline": {"name": "qae", "K": 0.4},
        "tracking": {"name": "offline", "project": "qae"},
    },
    "verl": {"trainer": {"device": "cpu"}},
}  # fmt: skip


def variables(inherited: dict | None = None, **changes) -> dict[str, str]:
    attempt = Attempt(run_dir=Path("/runs/0123456789"), run_id="0123456789", number=3)
    return environment.variables({**SPEC, **changes}, attempt, Path("/tmp/hr"), inherited or {})


def test_a_cpu_run():
    result = variables()
    assert result["HARNESS_ATTEMPT"] == "/runs/0123456789/attempts/003"
    assert result["VERL_PLATFORM"] == "cpu"
    assert result["VERL_USE_EXTERNAL_MODULES"] == "harness.trainer.plugin"
    assert (result["RAY_AUTH_MODE"], result["RAY_AUTH_TOKEN_PATH"]) == ("token", "/tmp/hr/token")
    assert (result["WANDB_RUN_ID"], result["WANDB_RESUME"], result["WANDB_MODE"]) == ("0123456789", "allow", "offline")
    assert result["WANDB_TAGS"] == "tiny,qae,K=0.4"
    assert result["HF_HUB_OFFLINE"] == "1"


def test_a_gpu_run_is_left_alone():
    result = variables(verl={"trainer": {"device": "cuda"}})
    cpu_only = {**environment.cpu_variables({}), **environment.start_variables()}
    assert not set(cpu_only) & set(result)


def test_what_runs_share_holds_nothing_of_the_attempt():
    shared = environment.shared_variables(SPEC, {})
    assert not {name for name in shared if name.startswith(("WANDB_", "HARNESS_"))}
    assert "0123456789" not in str(shared)
    assert set(shared) < set(variables())


def test_what_the_caller_set_stays():
    inherited = {"WANDB_RUN_GROUP": "smoke", "OMP_NUM_THREADS": "2", "VERL_USE_EXTERNAL_MODULES": "mine"}
    result = variables(inherited)
    assert (result["WANDB_RUN_GROUP"], result["OMP_NUM_THREADS"]) == ("smoke", "2")
    assert result["VERL_USE_EXTERNAL_MODULES"] == "mine,harness.trainer.plugin"


@pytest.mark.parametrize("name, mode", [("online", "online"), ("none", "disabled")])
def test_tracking_modes(name, mode):
    assert variables(config={"tracking": {"name": name}})["WANDB_MODE"] == mode


def test_an_unknown_tracking_mode_is_an_error():
    with pytest.raises(HarnessError, match="tracking.name='mlflow'"):
        variables(config={"tracking": {"name": "mlflow"}})


def test_no_secret_is_copied():
    result = variables({"WANDB_API_KEY": "hunter2", "HF_TOKEN": "hunter2"})
    assert "hunter2" not in str(result)


def test_the_ray_folder_is_private_and_its_token_fresh():
    attempt = Attempt(run_dir=Path("/runs/0123456789"), run_id="0123456789", number=1)
    folders = [environment.make_ray_temp(attempt) for _ in range(2)]
    try:
        tokens = [environment.token_file(folder).read_text() for folder in folders]
        assert len(set(tokens)) == 2
        assert all(len(token) == 64 for token in tokens)
        for folder in folders:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert stat.S_IMODE(environment.token_file(folder).stat().st_mode) == 0o600
            assert len(str(folder)) <= environment.LONGEST_TEMP
    finally:
        for folder in folders:
            environment.token_file(folder).unlink()
            folder.rmdir()


def test_a_deep_temp_folder_is_not_used(monkeypatch, tmp_path):
    deep = tmp_path / ("x" * 60)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    folder = environment.make_ray_temp(Attempt(run_dir=Path("/runs/0123456789"), run_id="0123456789", number=1))
    environment.token_file(folder).unlink()
    folder.rmdir()
    assert folder.parent == Path("/tmp")


def test_folders_of_killed_attempts_are_removed_by_the_next_one(tmp_path):
    first = Attempt(run_dir=tmp_path, run_id="0123456789", number=1)
    second = Attempt(run_dir=tmp_path, run_id="0123456789", number=2)
    folder = environment.make_ray_temp(first)
    environment.remember_ray_temp(first, folder)
    innocent = tmp_path / "innocent"
    innocent.mkdir()
    (second.folder / environment.RAY_NOTE).parent.mkdir(parents=True)
    (second.folder / environment.RAY_NOTE).write_text(str(innocent))
    environment.forget_ray_temps(second)
    assert not folder.exists()
    assert innocent.exists()
    assert not list(tmp_path.rglob(environment.RAY_NOTE))


@pytest.mark.parametrize("survived", range(6))
def test_who_is_killed_while_it_removes_a_folder_has_not_lost_it(tmp_path, monkeypatch, survived):
    attempt = Attempt(run_dir=tmp_path, run_id="0123456789", number=1)
    folder = environment.make_ray_temp(attempt)
    environment.remember_ray_temp(attempt, folder)
    for name in ("a", "b", "zz"):
        place = environment.ray_folder(folder) / "session" / name
        place.mkdir(parents=True)
        (place / "log").write_text("x")
    done = []

    def killed(name, original):
        def call(*arguments, **options):
            if len(done) == survived:
                raise KeyboardInterrupt
            done.append(name)
            return original(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        for name in ("unlink", "rmdir"):
            patch.setattr(f"os.{name}", killed(name, getattr(os, name)))
        with pytest.raises(KeyboardInterrupt):
            environment.forget_ray_temps(attempt)
    assert folder.exists()
    environment.forget_ray_temps(attempt)
    assert not folder.exists()
