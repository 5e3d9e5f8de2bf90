from __future__ import annotations

import pytest

from harness.config.machine import Machine, check, shared, survey
from harness.config.settings import Resources
from harness.errors import HarnessError


def test_gpus_are_handed_out_and_come_back():
    box = Machine(cpus=16, memory_gb=128, gpus=("0", "1", "2", "3"))
    need = Resources(cpus=4, memory_gb=32, gpus=2)
    left, first = box.take(need)
    assert first == ("0", "1")
    left, second = left.take(need)
    assert second == ("2", "3")
    assert not left.fits(need)
    again, third = left.give_back(need, first).take(need)
    assert third == ("0", "1")


def test_what_limits_is_the_scarcest():
    need = Resources(cpus=2, memory_gb=6)
    assert Machine(2, 24, ()).fits(need)
    left, _ = Machine(2, 24, ()).take(need)
    assert not left.fits(need), "one run at a time on two cores"
    assert not Machine(64, 5, ()).fits(need)


def test_a_run_that_never_fits_is_refused_with_the_remedy():
    with pytest.raises(HarnessError, match=r"model\.resources\.gpus=8: this machine has 0 GPUs; choose model=tiny"):
        check(Machine(64, 512, ()), Resources(gpus=8), "m")
    with pytest.raises(HarnessError, match=r"model\.resources\.memory_gb=100: this machine has 24 GiB of memory free"):
        check(Machine(64, 24, ()), Resources(memory_gb=100), "m")
    with pytest.raises(HarnessError, match="spans several machines"):
        check(Machine(64, 24, ("0",)), Resources(gpus=1, nodes=2), "m")


def test_few_cores_still_run_one_at_a_time():
    assert shared(Machine(1, 24, ()), Resources(cpus=2)).cpus == 1


def test_the_survey_sees_this_machine(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    here = survey()
    assert here.gpus == ("3", "5")
    assert here.cpus >= 1
    assert here.memory_gb > 0.1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert survey().gpus == ()
