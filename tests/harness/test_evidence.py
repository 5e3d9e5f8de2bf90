from __future__ import annotations

import pytest

from harness.evidence import cause

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
        ("OSError: [Errno 28] No space left on device", 1, "no disk space", "OSError: [Errno 28] No space left on device"),
        ("ValueError: loss is nan at step 3", 1, "not a number", "ValueError: loss is nan at step 3"),
        ("omegaconf.errors.ConfigAttributeError: Key 'x' not in struct", 1, "configuration",
         "omegaconf.errors.ConfigAttributeError: Key 'x' not in struct"),
        ("all is well", -9, "killed", "killed by signal 9; last line: all is well"),
        ("", 1, "unknown", "exit code 1, empty log"),
        ("KeyError: 'acc'", 1, "unknown", "KeyError: 'acc'"),
    ],
)  # fmt: skip
def test_the_line_that_says_why(log, code, name, line):
    found = cause(log, code)
    assert (found.name, found.line) == (name, line)
