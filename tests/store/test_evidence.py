from __future__ import annotations

import pytest

from harness.store.evidence import Traces, cause, classify

RAY = """
\x1b[36m(TaskRunner pid=77)\x1b[0m Traceback (most recent call last):
\x1b[36m(TaskRunner pid=77)\x1b[0m   File "x.py", line 3, in run
\x1b[36m(TaskRunner pid=77)\x1b[0m torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
Traceback (most recent call last):
ray.exceptions.RayTaskError(OutOfMemoryError): ray::TaskRunner.run() (pid=77)
"""


@pytest.mark.parametrize(
    ("log", "code", "name", "line"),
    [
        (RAY, 1, "out of GPU memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"),
        ("OSError: [Errno 28] No space left on device", 1, "no disk space",
         "OSError: [Errno 28] No space left on device"),
        ("ValueError: loss is nan at step 3", 1, "not a number", "ValueError: loss is nan at step 3"),
        ("omegaconf.errors.ConfigAttributeError: Key 'x' not in struct", 1, "configuration",
         "omegaconf.errors.ConfigAttributeError: Key 'x' not in struct"),
        ("all is well", -9, "killed", "killed by signal 9; last line: all is well"),
        ("", 1, "unknown", "exit code 1, empty log"),
        ("KeyError: 'acc'", 1, "unknown", "KeyError: 'acc'"),
        ("KeyError: 'x'\nerror: K=2: use 0.4\nTraining Progress: 0%", 2, "configuration", "K=2: use 0.4"),
    ],
)  # fmt: skip
def test_the_line_that_says_why(log, code, name, line):
    found = cause(log, code)
    assert (found.name, found.line) == (name, line)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("torch.distributed.DistBackendError: NCCL error in: socket.cpp:1", "NCCL"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "node failure"),
        ("ValueError: Total available GPUs 1 is less than total desired GPUs 2", "Ray start-up"),
        ("ModuleNotFoundError: No module named 'vllm'", "configuration"),
        ("error: /x/spec.json is no spec of schema 1: plan the run again with this version", "configuration"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/train.parquet'", "data"),
        ("RuntimeError: training diverged: reward 0 since step 3", "not a number"),
        ("ray.exceptions.OutOfMemoryError: Task was killed due to low memory.", "out of host memory"),
    ],
)  # fmt: skip
def test_classes(line, name):
    assert cause(f"hello\n{line}\n", 1).name == name


KILLED = "slurmstepd: error: StepId=7.0 exceeded memory limit (1100 > 1024), being killed"


@pytest.mark.parametrize(
    ("state", "status", "words", "log", "name"),
    [
        ("CANCELLED by 1000", "0:15", "", "", "cancelled"),
        ("TIMEOUT", "0:0", "", "", "time limit"),
        ("PREEMPTED", "0:0", "", "", "preempted"),
        ("NODE_FAIL", "0:0", "", "KeyError: 'acc'", "node failure"),
        ("OUT_OF_MEMORY", "0:125", "", "", "out of host memory"),
        ("FAILED", "9:0", KILLED, "all is well", "out of host memory"),
        ("FAILED", "137:0", "", "all is well", "killed"),
        ("FAILED", "1:0", "", "KeyError: 'acc'", "unknown"),
        ("FAILED", "1:0", "", RAY, "out of GPU memory"),
        ("REQUEUED", "0:0", "", "", "unknown"),
        ("", "", "", "", "unknown"),
        ("", "", "", RAY, "out of GPU memory"),
        ("COMPLETED", "0:0", "", "all is well", "unknown"),
    ],
)
def test_the_end_of_an_attempt_that_could_not_say_it_itself(state, status, words, log, name):
    found = classify(Traces(state=state, status=status, words=words, log=log))
    assert found.name == name
    assert found.line


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("slurmstepd-n3: error: *** STEP 7.0 ON n3 CANCELLED AT 2026-11-30T13:29:48 DUE TO NODE FAILURE, SEE LOG ***",
         "node failure"),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-30T13:29:48 ***", "cancelled"),
        ("slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-30T13:29:48 DUE TO PREEMPTION ***", "preempted"),
        ("slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-30T13:29:48 DUE TO TIME LIMIT ***", "time limit"),
        ("slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-30T13:29:48 DUE TO JOB REQUEUE ***", "unknown"),
    ],
)  # fmt: skip
def test_what_slurmstepd_says_at_once(line, name):
    assert classify(Traces(words=f"srun: got SIGCONT\n{line}\n")).name == name
