"""`python -m harness.tasks.scoring.symbolic`: compares answers with sympy, one JSON request a line.

A process of its own, because sympy can run for hours or eat all memory on what a model writes, and a process is the
only thing that can be stopped safely from a worker thread: math-verify's own time limit is SIGALRM, which works in the
main thread alone and elsewhere becomes a silent "wrong".

First it says {"ready": true}, when its imports are done. Then request {"gold": str, "answer": str, "seconds": float},
reply {"equal": bool} or {"equal": false, "error": str}.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
from typing import TextIO

MEMORY_BYTES = 4 * 2**30
"""Address space of the process: 2**(9**9**9) must not take the machine with it."""


def serve(requests: TextIO, replies: TextIO) -> None:
    """Imports what takes seconds, says so, and answers requests until their end."""
    from harness.tasks.scoring.equivalence import equal

    _reply(replies, {"ready": True})
    for line in requests:
        request = json.loads(line)
        _limit_time(float(request["seconds"]))
        try:
            reply: dict[str, object] = {"equal": equal(request["gold"], request["answer"])}
        except (RecursionError, MemoryError) as error:
            reply = {"equal": False, "error": type(error).__name__}
        except Exception as error:  # whatever sympy raises on nonsense means that it is not the right answer
            reply = {"equal": False, "error": f"{type(error).__name__}: {error}"[:200]}
        _reply(replies, reply)


def _reply(replies: TextIO, reply: dict[str, object]) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


def _limit_time(seconds: float) -> None:
    """Should our parent be gone when an expression hangs, the kernel ends us: nobody else would."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def main() -> int:
    """Serves standard input and output; nothing else may write there."""
    logging.disable(logging.WARNING)  # math-verify warns that its time limit is off: ours is the parent's
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    replies, sys.stdout = sys.stdout, sys.stderr
    serve(sys.stdin, replies)
    return 0


if __name__ == "__main__":
    sys.exit(main())
