"""Importing modules once for many processes, and saying for which processes that is the same as importing them there.

A forked process differs from a started one where an import looked at its surroundings. What can be seen is recorded:
each environment variable that a module reads, each that it sets, and the sources outside of the installation. What
cannot be seen is listed (`NATIVE`: libraries that read variables in C) or checked after the imports: no second thread,
and forks that draw different identifiers.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import random
import sys
import sysconfig
import tempfile
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)

NATIVE = (
    "RAY_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "NUMEXPR_", "DNNL_", "ONEDNN_", "MKLDNN_", "TORCH",
    "ATEN_", "NPY_", "NUMPY_", "ARROW_", "GRPC_", "ABSL_", "MALLOC_", "LD_", "PYTHON", "SSL_", "OPENSSL_", "LC_",
    "LANG", "RUST_", "CUDA_VISIBLE_DEVICES", "FSSPEC_",
)  # fmt: skip
"""Prefixes of variables that C, C++ or Rust code may read while it is loaded, such as Ray's configuration (RAY_*)."""

LATE = frozenset({
    "RAY_RAYLET_PID", "RAY_NODE_ID", "RAY_LD_PRELOAD_ON_WORKERS", "RAY_LOCAL_RANK", "RAY_LOCAL_WORLD_SIZE",
    "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS", "RAY_TMPDIR", "PYTHONBREAKPOINT", "PYTHONUNBUFFERED",
})  # fmt: skip
"""Exceptions from NATIVE: no matter for a library that is loaded, or read by Python code when it is needed."""

DURING = {
    # jemalloc, which Arrow brings along, would start a thread as it is loaded.
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    # Ray's library reads both for good as it is loaded, and a worker fails without. The first job of a cluster, hence
    # every job of ours, has this id; workers of another one are declined.
    "RAY_JOB_ID": "01000000",
    # Looked at once a second, to end a worker whose raylet is gone. Process 1 never is: `forkclient` watches instead.
    "RAY_RAYLET_PID": "1",
}
"""Variables that are set during the imports, and only then."""

UNRECORDED = ("fsspec.config",)
"""Imported first: it copies the whole environment, to pick FSSPEC_* from it, and would seem to depend on all of it."""

IRRELEVANT = frozenset({"COLUMNS", "LINES", *DURING})
"""Read during imports, but without a lasting effect: the width of a terminal."""


@dataclass(frozen=True, slots=True)
class Preloaded:
    """What the imports depended on."""

    before: Mapping[str, str]
    """Environment in which they took place."""
    after: Mapping[str, str]
    """Environment that they left."""
    read: frozenset[str]
    """Variables that Python code read."""
    sources: Mapping[str, int]
    """File outside of the installation -> its mtime in ns."""
    generators: tuple[random.Random, ...]
    """Generators that modules made for themselves, besides the one of `random`."""
    fault: str
    """Why nothing may be forked at all; empty if all is well."""

    def objection(self, environment: Mapping[str, str]) -> str:
        """Why a process with `environment` would have imported something else; empty where it would not."""
        if self.fault:
            return self.fault
        for name in sorted(self.read | {name for name in {*environment, *self.before} if _native(name)}):
            # What the imports left is fine as well: it is inherited from a process that made the same imports.
            fine = {self.before.get(name), self.after.get(name), DURING.get(name, self.before.get(name))}
            if environment.get(name) not in fine:
                return f"{name} is {_shown(name, environment)} there and was {_shown(name, self.before)} here"
        for path, modified in self.sources.items():
            if _modified(path) != modified:
                return f"{path} has changed"
        return ""

    def set_by_imports(self) -> dict[str, str]:
        """Variables that the imports added or changed."""
        return {name: value for name, value in self.after.items() if self.before.get(name) != value}

    def renew(self) -> None:
        """To be called in a forked process: gives it random numbers of its own, as a started process has.

        Python's and Ray's generators need no help (see `_ray_ids_from_the_system`).
        """
        for generator in self.generators:
            generator.seed()
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed()
        if "torch" in sys.modules:
            sys.modules["torch"].default_generator.seed()
        if "multiprocessing.process" in sys.modules:
            sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)
        tempfile.tempdir = None  # cached on first use: TMPDIR may be another one here


def preload(modules: Iterable[str]) -> Preloaded:
    """Imports `modules` into this process and freezes what they made, so that forks share its memory.

    A module that cannot be imported is skipped: whoever needs it finds out in its own process.
    """
    names = tuple(modules)
    before = dict(os.environ)
    os.environ.update(DURING)
    if "ray" in names:
        _import(UNRECORDED)
    with _recorded_reads() as read, _ray_ids_from_the_system() if "ray" in names else nullcontext():
        _import(names)
    for name in DURING:
        _restore(name, before.get(name))
    generators = tuple(g for g in gc.get_objects() if type(g) is random.Random and g is not _of_random())
    gc.collect()
    gc.freeze()
    return Preloaded(
        before=before, after=dict(os.environ), read=frozenset(read) - IRRELEVANT, sources=_sources(),
        generators=generators, fault=_fault(),
    )  # fmt: skip


def _import(modules: Iterable[str]) -> None:
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:  # whatever goes wrong in other people's modules: see `preload`
            log.warning("not preloaded: %s (%s: %s)", name, type(error).__name__, error)


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _shown(name: str, environment: Mapping[str, str]) -> str:
    """A variable for the log: secrets may sit in any, so that only the few that are known to be harmless are shown."""
    if name not in environment:
        return "not set"
    return repr(environment[name]) if name.startswith(("RAY_", "OMP_", "VERL_", "PYTHON")) else "another"


def _native(name: str) -> bool:
    return name.startswith(NATIVE) and name not in LATE


def _of_random() -> random.Random:
    return random._inst  # reseeded by Python itself in every fork


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1


def _sources() -> dict[str, int]:
    """Files of the modules imported so far that are edited in place: neither Python's own nor installed packages."""
    installed = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
    files = {str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())}
    edited = (path for path in files if os.path.isabs(path) and not path.startswith(installed))
    return {path: _modified(path) for path in edited}


def _fault() -> str:
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return f"the imports started {threads - 1} thread(s), which a fork would lose"
    if "ray._raylet" in sys.modules and len({_ray_id_of_a_fork() for _ in range(3)}) < 3:
        return "forks would draw equal Ray identifiers"
    return ""


def _ray_id_of_a_fork() -> bytes:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, sys.modules["ray._raylet"].UniqueID.from_random().binary())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        drawn = pipe.read()
    os.waitpid(pid, 0)
    return drawn


@contextmanager
def _ray_ids_from_the_system() -> Iterator[None]:
    """Keeps Ray's generator of identifiers untouched while classes are decorated with `ray.remote`.

    It is seeded on first use, in C++ and for good: forks of a process that used it would draw equal identifiers, and
    Ray keeps objects under them. The only use during imports is the id of an actor class (ray/actor.py, make_actor).
    """
    try:
        import ray.actor as actor
    except ImportError:  # no Ray here: nothing to keep
        yield
        return
    stock = actor.ActorClassID

    class FromSystem:
        @staticmethod
        def from_random() -> Any:
            return stock(os.urandom(stock.size()))

    setattr(actor, "ActorClassID", FromSystem)  # noqa: B010  (mypy rightly refuses the plain assignment)
    try:
        yield
    finally:
        setattr(actor, "ActorClassID", stock)  # noqa: B010


class _Recording(os._Environ[str]):
    """`os.environ` that notes which variables are read by name; a look at all of them, as tqdm takes, is no reading."""

    read: set[str]

    def __getitem__(self, key: str) -> str:
        self.read.add(key)
        return super().__getitem__(key)

    def _plain(self) -> dict[str, str]:
        return {os.fsdecode(key): os.fsdecode(value) for key, value in self._data.items()}  # type: ignore[attr-defined]

    def items(self) -> ItemsView[str, str]:
        return self._plain().items()

    def values(self) -> ValuesView[str]:
        return self._plain().values()

    def copy(self) -> dict[str, str]:
        return self._plain()


@contextmanager
def _recorded_reads() -> Iterator[set[str]]:
    environ = os.environ
    stock = environ.__class__
    environ.__class__ = _Recording
    environ.read = set()  # type: ignore[attr-defined]
    try:
        yield environ.read  # type: ignore[attr-defined]
    finally:
        environ.__class__ = stock
