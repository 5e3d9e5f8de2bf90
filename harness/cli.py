"""The command line: one function a verb; what a verb needs is imported inside it, so that every verb starts fast."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from harness.errors import HarnessError, nearest, one_line, told

EXIT_FAILED, EXIT_ERROR, EXIT_INTERRUPTED = 1, 2, 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise HarnessError(f"{self.prog}: {message}; see `{self.prog} --help`")


def _asked(arguments: argparse.Namespace) -> tuple[str, list[str]]:
    """(sweep, overrides for all its points); `sweep cluster=local` is about the default sweep."""
    if "=" in arguments.sweep:
        return "smoke", [arguments.sweep, *arguments.overrides]
    return arguments.sweep, arguments.overrides


def _plan(arguments: argparse.Namespace) -> int:
    from harness import estimates, report_text
    from harness.compose import project_folder
    from harness.plan import plan, summary
    from harness.search import study
    from harness.slurm import admission
    from harness.store import Store
    from harness.sweep import load

    if study.exists(arguments.sweep):
        from harness.search.command import plan as plan_study

        print(plan_study(arguments.sweep, arguments.overrides))
        return 0
    project = project_folder()
    sweep = load(*_asked(arguments))
    store = Store.default(project)
    entries = plan(sweep, store, project)
    shown = report_text.plan(sweep, entries, estimates.points(entries, store))
    print("\n\n".join([shown, *estimates.lines(entries, store), summary(entries)]), flush=True)
    admission.check(entries)
    return 0


def _sweep(arguments: argparse.Namespace) -> int:
    from harness.apply import apply

    return apply(*_asked(arguments), report=not arguments.no_report, prune=arguments.prune)


def _train(arguments: argparse.Namespace) -> int:
    if arguments.multirun:
        from harness import multirun

        return multirun.run(arguments.overrides)
    from harness.apply import train

    return train(arguments.overrides)


def _steering(arguments: argparse.Namespace) -> int:
    from harness import steering

    verbs = {"status": steering.status, "logs": steering.logs, "cancel": steering.cancel, "retry": steering.retry}
    return verbs[arguments.verb](arguments)


def _upkeep(arguments: argparse.Namespace) -> int:
    from harness import upkeep

    return {"doctor": upkeep.doctor, "sync": upkeep.sync, "gc": upkeep.gc}[arguments.verb](arguments)


def _why(arguments: argparse.Namespace) -> int:
    from harness import report_text
    from harness.compose import project_folder
    from harness.store import Store

    store = Store.default(project_folder())
    a, b = (store.spec(store.find(prefix)) for prefix in (arguments.run, arguments.other))
    print(report_text.why(a, b))
    return 0


def _eval(arguments: argparse.Namespace) -> int:
    from harness import targets
    from harness.compose import project_folder
    from harness.evaluate import Asked, evaluate
    from harness.store import Store

    project = project_folder()
    store = Store.default(project)
    asked = Asked(step=arguments.step, n=arguments.n, seeds=arguments.seeds, time_limit=arguments.time_limit)
    for line in evaluate(store, targets.runs(store, arguments.runs), asked, project, here=arguments.here):
        print(line, flush=True)
    return 0


def _score(arguments: argparse.Namespace) -> int:
    from harness.compose import project_folder
    from harness.scoring.again import rescore
    from harness.store import Store

    store = Store.default(project_folder())
    for result in rescore(store, store.find(arguments.run), arguments.step):
        print(f"step {result.step}: {result.rows} responses judged again, {result.changed} changed")
    return 0


def _data(arguments: argparse.Namespace) -> int:
    from harness.compose import project_folder
    from harness.data import command

    print(command.run(arguments, project_folder()))
    return 0


def _ksearch(arguments: argparse.Namespace) -> int:
    from harness.search.command import ksearch

    return ksearch(arguments.study, arguments.overrides, once=arguments.once, report=not arguments.no_report)


def _replay(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from analysis import replay_command
    from harness.compose import project_folder
    from harness.store import Store

    levels = [text for text in (arguments.K or "").split(",") if text.strip()]
    out = Path(arguments.out) if arguments.out else None
    store = Store.default(project_folder())
    print(replay_command.run(store, arguments.run, levels, out, figure=not arguments.no_figure))
    return 0


def _advise(arguments: argparse.Namespace) -> int:
    from analysis import replay_command
    from harness.compose import project_folder
    from harness.store import Store

    print(replay_command.advise(Store.default(project_folder()), arguments.run))
    return 0


VERBS: dict[str, tuple[Callable[[argparse.Namespace], int], str]] = {
    "plan": (_plan, "what `sweep` would do, and why; changes nothing"),
    "sweep": (_sweep, "apply a sweep: start what is missing, go on where it stopped, write the report"),
    "train": (_train, "one training here in the foreground, Hydra-style: train baseline=qae baseline.K=0.4"),
    "status": (_steering, "the state of all runs, or of some: status SWEEP state=failed --watch"),
    "logs": (_steering, "the log of a run: logs RUN -f"),
    "cancel": (_steering, "take a sweep or a run off the queue and off the nodes"),
    "retry": (_steering, "runs that failed or were stopped once more: retry SWEEP --failed, --class oom"),
    "doctor": (_upkeep, "what would stop a run here, and the remedy: doctor model=tiny --job"),
    "sync": (_upkeep, "upload the offline W&B runs, each once"),
    "gc": (_upkeep, "what the store could do without; removes it with --yes"),
    "why": (_why, "what differs between two runs"),
    "ksearch": (_ksearch, "find K: carry out a study of sweeps/search, from where it stands"),
    "replay": (_replay, "what other K would have made of a finished run's rewards, without training"),
    "advise": (_advise, "the published rules of thumb for K, applied to a run"),
    "eval": (_eval, "evaluate checkpoints again with more samples, as jobs after their training or here"),
    "score": (_score, "judge the kept responses of a run's evaluations again, without a model"),
    "data": (_data, "training and evaluation sets: prepare NAME [--from FILE], show NAME 3, list"),
}


def parser() -> argparse.ArgumentParser:
    """The parser of all verbs."""
    from harness import steering, upkeep

    root = _Parser(prog="harness", description="Ablations of advantage baselines on verl.")
    verbs = root.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    made = {name: verbs.add_parser(name, help=text, description=text) for name, (_, text) in VERBS.items()}
    for name in ("plan", "sweep"):
        made[name].add_argument("sweep", nargs="?", default="smoke", help="a file of sweeps/ (default: smoke)")
        made[name].add_argument(
            "overrides", nargs="*", metavar="key=value", help="for every point, such as cluster=local"
        )
    made["sweep"].add_argument("--no-report", action="store_true", help="leave out the report at the end")
    made["train"].add_argument("overrides", nargs="*", metavar="key=value", help="Hydra overrides over conf/")
    made["train"].add_argument(
        "-m",
        "--multirun",
        action="store_true",
        help="Hydra's multirun: key=a,b; with hydra/launcher=harness in parallel",
    )
    made["sweep"].add_argument("--prune", action="store_true", help="cancel jobs that the grid no longer asks for")
    made["why"].add_argument("run", metavar="RUN", help="run id, or the first digits of it")
    made["why"].add_argument("other", metavar="OTHER", help="another run")
    made["eval"].add_argument("runs", nargs="+", metavar="RUNS", help=steering.WHICH)
    made["eval"].add_argument("--step", type=int, help="step of the checkpoint (default: the last)")
    made["eval"].add_argument("--n", type=int, default=32, help="samples a problem and evaluation seed (default: 32)")
    made["eval"].add_argument("--seeds", type=int, default=1, help="evaluation seeds (default: 1)")
    made["eval"].add_argument("--time-limit", default="", metavar="H:MM:SS", help="of the job (default: the run's)")
    made["eval"].add_argument("--here", action="store_true", help="in the foreground, also where the run is SLURM's")
    made["score"].add_argument("run", help="run id, or the first digits of it")
    made["score"].add_argument("--step", type=int, nargs="*", default=[], help="only these steps (default: all)")
    _data_arguments(made["data"])
    for name in ("status", "logs", "cancel", "retry"):
        steering.add_arguments(name, made[name])
    for name in ("doctor", "sync", "gc"):
        upkeep.add_arguments(name, made[name])
    made["ksearch"].add_argument("study", help="a file of sweeps/search")
    made["ksearch"].add_argument("overrides", nargs="*", metavar="key=value", help="of cluster and tracking alone")
    made["ksearch"].add_argument("--once", action="store_true", help="one tick, for cron: runs go on by themselves")
    made["ksearch"].add_argument("--no-report", action="store_true", help="leave out the report at the end")
    for name in ("replay", "advise"):
        made[name].add_argument("run", help="run id, or the first digits of it; best one of the mean baseline")
    made["replay"].add_argument("--K", metavar="0.2,0.4", help="quantile levels (default: one of every rank)")
    made["replay"].add_argument("--out", metavar="FOLDER", help="where to write (default: reports/replay/RUN)")
    made["replay"].add_argument("--no-figure", action="store_true", help="leave out the PDF, SVG and PNG")
    return root


def _data_arguments(parser: argparse.ArgumentParser) -> None:
    from harness.data.command import add_arguments

    add_arguments(parser)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb; returns the exit code: 0 well, 1 a run failed, 2 something the user must mend, 130 interrupted."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words and not words[0].startswith("-") and words[0] not in VERBS:
            raise HarnessError(f"no verb {words[0]!r}; {nearest(words[0], VERBS)}; see `harness --help`")
        parsed, unknown = parser().parse_known_args(words)
        if unknown:
            verb = f"harness {parsed.verb}" if parsed.verb else "harness"
            raise HarnessError(f"{verb}: unrecognized arguments: {' '.join(unknown)}; see `{verb} --help`")
        if parsed.verb is None:
            parser().print_help()
            return 0
        return VERBS[parsed.verb][0](parsed)
    except HarnessError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return EXIT_ERROR
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # a closed pager is no error
        return 0
    except OSError as error:
        print(f"error: {told(error)}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
