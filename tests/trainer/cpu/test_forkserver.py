"""The fork server with light modules: what is forked must not be told from what is started."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.trainer.cpu import forkclient, preload
from harness.trainer.cpu.forkserver import ForkServer, hand_over, ray_python

PROBE = """
import json, os, random, resource, signal, sys, threading
import colorsys
from pathlib import Path
print(json.dumps({
    "argv": sys.argv, "path": sys.path, "name": __name__, "flags": sys.flags.safe_path,
    "environment": dict(os.environ), "directory": os.getcwd(), "parent": os.getppid(), "pid": os.getpid(),
    "descriptors": sorted(int(f) for f in os.listdir("/proc/self/fd")), "umask": os.umask(0), "session": os.getsid(0),
    "nice": os.getpriority(os.PRIO_PROCESS, 0), "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    "affinity": sorted(os.sched_getaffinity(0)), "random": random.random(), "threads": threading.active_count(),
    "handlers": {int(n): str(signal.getsignal(n)) for n in signal.valid_signals()}, "stdin": sys.stdin.read(),
    "mask": [int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "buffered": not sys.stdout.write_through, "executable": sys.executable, "original": sys.orig_argv,
}))
print("to standard error", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer.start(modules=["json", "random", "resource"]) as started:
        yield started


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Writes a script under a name that the stand-in for Python hands to the server."""

    def write(text: str) -> str:
        path = tmp_path / forkclient.FORKED[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    return write


def command(server: ForkServer, *arguments: str) -> list[str]:
    return [str(server.folder / "python"), *arguments]


def variables(server: ForkServer, **more: str) -> dict[str, str]:
    return {**os.environ, **server.environment(), **more}


def run(server: ForkServer, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    options = {"env": variables(server), "capture_output": True, "text": True, "timeout": 60, **options}
    return subprocess.run(command(server, *arguments), check=False, **options)  # type: ignore[call-overload, no-any-return]


def eventually(condition: Callable[[], object], seconds: float = 20.0) -> bool:
    """Whether the condition came true; generous, for machines that are busy."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # the second where it ended between opening and reading
        return False


def logged(server: ForkServer) -> str:
    return (server.folder / "log").read_text()


def wait_for_line(path: Path) -> int:
    assert eventually(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def test_a_forked_process_looks_like_a_started_one(server, script, tmp_path):
    probe = script(PROBE)
    options = {"cwd": tmp_path, "env": variables(server, COLOUR="blue"), "input": "words", "umask": 0o027}
    forked = run(server, "-u", probe, "--flag", "a b", **options)
    started = subprocess.run(
        [sys.executable, "-u", probe, "--flag", "a b"], capture_output=True, text=True, check=True, **options
    )
    ours, theirs = json.loads(forked.stdout), json.loads(started.stdout)
    assert ours["parent"] == server.process.pid != theirs["parent"]
    assert forked.stderr == started.stderr == "to standard error\n"
    # The socket and the lifeline are the two that a started process has not.
    assert len(ours.pop("descriptors")) == len(theirs.pop("descriptors")) + 2
    for key in ("parent", "pid", "session", "random"):
        assert ours.pop(key) != theirs.pop(key)
    ours["original"][0] = theirs["original"][0] = ""
    assert theirs["original"].pop(1) == "-u"
    assert ours == theirs


def test_the_working_directory_of_the_server_is_not_on_the_path(server, script, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    path = json.loads(run(server, script(PROBE), cwd="/").stdout)["path"]
    assert path[0] == str(Path(script(PROBE)).parent)
    assert os.getcwd() not in path[:1]


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("", 0),
        ("raise SystemExit(7)", 7),
        ("import os; os._exit(3)", 3),
        ("1 / 0", 1),
        ("import os; os.kill(os.getpid(), 9)", -9),
        ("import os; os.kill(os.getpid(), 15)", -15),
    ],
)
def test_the_exit_code_comes_back(server, script, ending, code):
    assert run(server, script(ending)).returncode == code


def test_what_is_registered_for_the_exit_runs(server, script, tmp_path):
    run(server, script(f"import atexit, pathlib; atexit.register(pathlib.Path({str(tmp_path / 'bye')!r}).touch)"))
    assert (tmp_path / "bye").exists()
    assert server.folder.is_dir()


def test_signals_are_passed_on(server, script, tmp_path):
    before = "import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(5))"
    process = subprocess.Popen(command(server, script(sleeper(tmp_path, before))), env=variables(server))
    wait_for_line(tmp_path / "pid")
    process.send_signal(signal.SIGUSR1)
    assert process.wait(timeout=20) == 5


def sleeper(tmp_path: Path, before: str = "") -> str:
    """Writes its process id into a file called $NAME, or pid, and stays."""
    return (
        f"import os, pathlib, time\n{before}\nfile = pathlib.Path({str(tmp_path)!r}, os.environ.get('NAME', 'pid'))\n"
        "file.write_text(f'{os.getpid()}\\n')\ntime.sleep(300)\n"
    )


def test_a_forked_process_dies_with_the_one_that_asked(server, script, tmp_path):
    before = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())"
    process = subprocess.Popen(command(server, script(sleeper(tmp_path, before))), env=variables(server))
    pid = wait_for_line(tmp_path / "pid")
    process.kill()
    process.wait()
    assert eventually(lambda: not alive(pid))
    assert server.process.poll() is None


def test_the_server_dies_with_its_owner_and_what_it_forked_does_not(script, tmp_path):
    text = f"""
import os, subprocess, sys, time
from harness.trainer.cpu.forkserver import ForkServer
server = ForkServer.start(modules=["json"])
process = subprocess.Popen([str(server.folder / "python"), {script(sleeper(tmp_path))!r}],
                           env={{**os.environ, **server.environment()}}, start_new_session=True)
print(server.process.pid, server.folder, process.pid, flush=True)
time.sleep(300)
"""
    owner = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    host, folder, client = owner.stdout.readline().split()
    pid = wait_for_line(tmp_path / "pid")
    owner.kill()
    owner.wait()
    try:
        assert eventually(lambda: not alive(int(host)) and not Path(folder).exists())
        assert alive(pid)
        assert alive(int(client))
    finally:
        os.kill(int(client), signal.SIGKILL)
    assert eventually(lambda: not alive(pid))


def test_without_the_variable_python_starts_as_ever(server, script):
    environment = {k: v for k, v in os.environ.items() if k != forkclient.VARIABLE}
    probe = json.loads(run(server, script(PROBE), env=environment).stdout)
    assert probe["parent"] == os.getpid()


def test_without_a_server_python_starts_as_ever(server, script, tmp_path):
    environment = {**os.environ, forkclient.VARIABLE: str(tmp_path / "gone")}
    probe = json.loads(run(server, script(PROBE), env=environment).stdout)
    assert probe["parent"] == os.getpid()


def test_a_server_that_dies_during_its_imports_leaves_a_normal_start(script, tmp_path):
    with ForkServer.start(modules=["json"]) as doomed:
        doomed.process.kill()
        doomed.process.wait()
        assert json.loads(run(doomed, script(PROBE)).stdout)["parent"] == os.getpid()


def test_other_commands_are_not_handed_over(server):
    program = "import os; print(os.getppid())"
    assert int(run(server, "-c", program).stdout) == os.getpid()


def test_a_variable_that_the_imports_read_has_to_be_equal(script, tmp_path, monkeypatch):
    module = tmp_path / "looks.py"
    module.write_text(
        "import os\nSHAPE = os.environ.get('SHAPE')\nos.environ.setdefault('SIZE', 'big')\nlist(os.environ.items())\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SHAPE", "round")
    show = script("import os, looks; print(os.getppid(), os.environ.get('SHAPE'), os.environ['SIZE'])")
    with ForkServer.start(modules=["looks"]) as server:
        assert run(server, show).stdout.split() == [str(server.process.pid), "round", "big"]
        assert run(server, show, env=variables(server, UNREAD="1")).stdout.split()[0] == str(server.process.pid)
        # A child of a process that made the imports inherits what they set.
        assert run(server, show, env=variables(server, SIZE="big")).stdout.split()[0] == str(server.process.pid)
        here = str(os.getpid())
        without = {k: v for k, v in variables(server).items() if k != "SHAPE"}
        assert run(server, show, env=without).stdout.split() == [here, "None", "big"]
        assert run(server, show, env=variables(server, SHAPE="flat")).stdout.split() == [here, "flat", "big"]
        assert run(server, show, env=variables(server, SIZE="small")).stdout.split() == [here, "round", "small"]
        assert run(server, show, env=variables(server, OMP_NUM_THREADS="7")).stdout.split()[0] == here
        elsewhere = variables(server, PYTHONPATH=f"{tmp_path}:/nowhere")
        assert run(server, show, env=elsewhere).stdout.split()[0] == here
        assert "declined" in logged(server)
        assert "SHAPE is another there" in logged(server)


def test_values_of_variables_are_kept_out_of_the_log(script, tmp_path, monkeypatch):
    (tmp_path / "looks.py").write_text("import os\nos.environ.get('API_KEY')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("API_KEY", "sesame-1")
    with ForkServer.start(modules=["looks"]) as server:
        run(server, script(""), env=variables(server, API_KEY="sesame-2"))
        assert "API_KEY" in logged(server)
        assert "sesame" not in logged(server)


def test_an_edited_source_is_noticed(script, tmp_path, monkeypatch):
    module = tmp_path / "mine.py"
    module.write_text("COLOUR = 'red'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    show = script("import mine; print(mine.COLOUR)")
    with ForkServer.start(modules=["mine"]) as server:
        assert run(server, show).stdout == "red\n"
        module.write_text("COLOUR = 'green'\n")
        os.utime(module, ns=(1, 1))
        assert run(server, show).stdout == "green\n"


def test_a_thread_started_by_an_import_disables_the_server(script, tmp_path, monkeypatch):
    (tmp_path / "busy.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with ForkServer.start(modules=["busy"]) as server:
        assert json.loads(run(server, script(PROBE)).stdout)["parent"] == os.getpid()
        assert "started 1 thread" in logged(server)


def test_a_module_that_cannot_be_imported_is_skipped(script):
    with ForkServer.start(modules=["no_such_module", "json"]) as server:
        assert json.loads(run(server, script(PROBE)).stdout)["parent"] == server.process.pid
        assert "not preloaded: no_such_module" in logged(server)


def test_random_numbers_differ(tmp_path, script, monkeypatch):
    (tmp_path / "own.py").write_text("import random\nrng = random.Random()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    show = script(
        "import random, own, os, uuid, numpy, tempfile, multiprocessing\n"
        "print(random.random(), own.rng.random(), numpy.random.rand(), uuid.uuid4(), tempfile.mktemp(),"
        " multiprocessing.current_process().authkey.hex())"
    )
    environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    modules = ["random", "own", "numpy.random", "uuid", "tempfile", "multiprocessing.process"]
    with ForkServer.start({**os.environ, **environment}, modules) as server:
        drawn = [run(server, show, env=variables(server, **environment)).stdout.split() for _ in range(2)]
        assert not logged(server).count("declined")
    assert len(drawn[0]) == 6
    for first, second in zip(*drawn, strict=True):
        assert first != second


def test_a_temporary_folder_of_its_own(tmp_path, script):
    with ForkServer.start(modules=["tempfile"]) as server:
        show = script("import tempfile; print(tempfile.gettempdir())")
        shown = run(server, show, env=variables(server, TMPDIR=str(tmp_path)))
    assert shown.stdout == f"{tmp_path}\n"


def test_two_at_once_and_two_runs_after_each_other(server, script, tmp_path):
    text = script(sleeper(tmp_path))
    both = [subprocess.Popen(command(server, text), env=variables(server, NAME=name)) for name in ("first", "second")]
    pids = [wait_for_line(tmp_path / name) for name in ("first", "second")]
    assert len(set(pids)) == 2
    both[0].terminate()
    assert both[0].wait(timeout=20) == -signal.SIGTERM
    assert not alive(pids[0])
    assert alive(pids[1])
    both[1].kill()
    both[1].wait()
    assert eventually(lambda: not alive(pids[1]))
    assert run(server, script("")).returncode == 0


def test_the_server_leaks_no_descriptors(server, script):
    run(server, script(""))

    def count() -> int:
        return len(os.listdir(f"/proc/{server.process.pid}/fd"))

    before = count()
    for _ in range(5):
        run(server, script(""))
    assert eventually(lambda: count() <= before)


def test_nonsense_on_the_socket_is_survived(server, script):
    for message in (b"", b"\n", b"{}\n", b'{"arguments": 3}\n'):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(server.environment()[forkclient.VARIABLE])
            connection.sendall(message)
    assert run(server, script("raise SystemExit(4)")).returncode == 4


def test_the_folder_is_private_and_goes_away(script):
    with ForkServer.start(modules=["json"]) as server:
        assert server.folder.stat().st_mode & 0o777 == 0o700
        assert run(server, script("")).returncode == 0
    assert not server.folder.exists()
    assert server.process.poll() is not None
    server.close()


def test_a_deep_temporary_folder_is_no_problem(tmp_path, monkeypatch, script):
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with ForkServer.start(modules=["json"]) as server:
        assert json.loads(run(server, script(PROBE)).stdout)["parent"] == server.process.pid


def test_starting_a_server_imports_nothing_heavy():
    program = (
        "import sys, harness.trainer.cpu.forkserver\n"
        "print([m for m in ('torch', 'ray', 'numpy', 'verl') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_hand_over_runs_a_module_once_and_ends_as_it_ended(server, tmp_path):
    (tmp_path / "program.py").write_text(
        "import os, sys\n"
        "from harness.trainer.cpu.forkserver import hand_over, this_process\n"
        "if __name__ == '__main__':\n"
        "    hand_over('program', sys.argv[1:])\n"
        "    print(os.getppid(), sys.argv[1:], os.path.basename(sys.argv[0]), len(this_process() - {os.getpid()}))\n"
        "    sys.exit(6)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "program", "x"], cwd=tmp_path, env=variables(server), capture_output=True, text=True
    )
    assert ended.stdout == f"{server.process.pid} ['x'] program.py 1\n"
    assert ended.returncode == 6
    alone = subprocess.run([sys.executable, "-m", "program", "x"], cwd=tmp_path, capture_output=True, text=True)
    assert alone.stdout == f"{os.getpid()} ['x'] program.py 0\n"
    assert alone.returncode == 6


def test_hand_over_does_nothing_without_a_server(monkeypatch):
    monkeypatch.delenv(forkclient.VARIABLE, raising=False)
    hand_over("this", [])


def test_ray_python_names_the_stand_in_for_a_while(server, monkeypatch):
    stock = sys.executable
    monkeypatch.setenv(forkclient.VARIABLE, server.environment()[forkclient.VARIABLE])
    with ray_python():
        assert sys.executable == str(server.folder / "python")
    assert sys.executable == stock
    monkeypatch.setenv(forkclient.VARIABLE, "/nowhere/socket")
    with ray_python():
        assert sys.executable == stock


CONTEXT = {
    "command_prefix": [], "env_vars": {}, "py_executable": None, "override_worker_entrypoint": None, "java_jars": [],
}  # fmt: skip
WORKER = ["/x/ray/_private/workers/default_worker.py", "--node-ip-address=1.2.3.4"]


def setup(language: str = "PYTHON", **changes: object) -> list[str]:
    context = f"--serialized-runtime-env-context={json.dumps({**CONTEXT, **changes})}"
    return [f"/x/{forkclient.SETUP_WORKER}", *WORKER, context, f"--language={language}"]


def test_a_worker_is_run_with_the_variables_of_its_runtime_environment():
    assert forkclient.command_for(setup()) == (WORKER, False, {})
    assert forkclient.command_for(setup(env_vars={"A": "1"})) == (WORKER, False, {"A": "1"})
    assert forkclient.command_for(setup(py_executable=sys.executable)) == (WORKER, False, {})
    separate = [f"/x/{forkclient.SETUP_WORKER}", *WORKER, "--language", "PYTHON"]
    assert forkclient.command_for(separate) == (WORKER, False, {})


def test_a_runtime_environment_that_asks_for_more_is_left_to_ray():
    assert forkclient.command_for(setup(py_executable="/other/python")) is None
    assert forkclient.command_for(setup(command_prefix=["numactl"])) is None
    assert forkclient.command_for(setup(override_worker_entrypoint="/in/container.py")) is None
    assert forkclient.command_for(setup("JAVA")) is None
    assert forkclient.command_for(["-m", "pip"]) is None
    assert forkclient.command_for([]) is None


def test_agents_are_forked_only_when_they_watch_a_pipe(monkeypatch):
    agent = ["-u", "/x/ray/dashboard/agent.py", "--head"]
    monkeypatch.delenv("RAY_enable_pipe_based_agent_to_parent_health_check", raising=False)
    assert forkclient.command_for(agent) is None
    monkeypatch.setenv("RAY_enable_pipe_based_agent_to_parent_health_check", "1")
    assert forkclient.command_for(agent) == (agent[1:], True, {})


def test_variables_are_expanded_as_ray_does(monkeypatch):
    utils = pytest.importorskip("ray._private.utils")
    asked = {"P": "${HOME}/x:$HOME:${NO_SUCH}:$NO_SUCH:${no_such}", "Q": "${P}!"}
    monkeypatch.setenv("HOME", "/home/me")
    ours = forkclient.expanded(asked, dict(os.environ))
    for name in asked:
        monkeypatch.setenv(name, "")
    utils.update_envs(asked)
    assert {name: ours[name] for name in asked} == {name: os.environ[name] for name in asked}


def test_imports_leave_the_environment_and_the_class_of_it():
    before, kind = dict(os.environ), type(os.environ)
    preloaded = preload.preload(["json"])
    assert dict(os.environ) == before
    assert type(os.environ) is kind
    assert preloaded.objection(before) == preloaded.fault


def test_generators_that_modules_made_are_found():
    generator = random.Random(5)
    assert generator in preload.preload([]).generators


@pytest.mark.slow
def test_real_modules_can_be_forked(script):
    """Needs torch, Ray and verl: no thread is left by their imports and forks draw different Ray identifiers."""
    pytest.importorskip("verl")
    common = {
        "OMP_NUM_THREADS": "1", "VERL_PLATFORM": "cpu", "VERL_USE_EXTERNAL_MODULES": "harness.trainer.plugin",
        "RAY_AUTH_MODE": "token",
    }  # fmt: skip
    show = script(
        "import os, sys, torch, ray\nfrom ray._raylet import UniqueID\n"
        "print(os.getppid(), UniqueID.from_random().hex(), torch.initial_seed(), torch.get_num_threads(),"
        " 'verl.trainer.main_ppo' in sys.modules, 'wandb' in sys.modules)"
    )
    with ForkServer.start({**os.environ, **common}) as server:
        drawn = [run(server, show, env=variables(server, **common), timeout=200).stdout.split() for _ in range(2)]
        assert " ready" in logged(server), logged(server)
    assert [d[0] for d in drawn] == [str(server.process.pid)] * 2
    assert drawn[0][1] != drawn[1][1]
    assert drawn[0][2] != drawn[1][2]
    assert drawn[0][3:] == ["1", "True", "False"]
