"""A command line of verbs: its parser, its errors, its exit codes. The same for `harness` and `python -m analysis`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import NoReturn

from harness.errors import HarnessError, nearest, one_line, told

EXIT_DONE, EXIT_FAILED, EXIT_ERROR, EXIT_INTERRUPTED = 0, 1, 2, 130
"""All went well; a run failed; something that the user must mend; interrupted."""


class Parser(argparse.ArgumentParser):
    """argparse's parser, whose errors are told as all others are."""

    def error(self, message: str) -> NoReturn:
        raise HarnessError(f"{self.prog}: {message}; see `{self.prog} --help`")


@dataclass(frozen=True, slots=True)
class Program:
    """A program whose verbs are modules, each with `HELP`, `add_arguments(parser)` and `run(arguments)`.

    Only the module of the verb that is asked for is imported, so that every verb starts as fast as it can.
    """

    name: str
    description: str
    verbs: Mapping[str, str]
    """Verb -> its module, in the order of the help."""

    def main(self, words: Sequence[str]) -> int:
        """Runs one verb; returns the exit code. A mistake of the user's is one line on stderr."""
        return guarded(lambda: self._act(list(words)))

    def _act(self, words: list[str]) -> int:
        verb = next((word for word in words if not word.startswith("-")), None)
        if verb is None:
            root = self._root()
            root.parse_args(words)
            root.print_help()
            return EXIT_DONE
        if verb not in self.verbs:
            raise HarnessError(f"no verb {verb!r}; {nearest(verb, self.verbs)}; see `{self.name} --help`")
        if before := words[: words.index(verb)]:
            self._root().parse_args(before)
        module = self._module(verb)
        parser = Parser(prog=f"{self.name} {verb}", description=module.HELP)
        module.add_arguments(parser)
        # Intermixed: what follows an option may be an override, as in `sweep NAME --no-report seed=2`.
        arguments, unknown = parser.parse_known_intermixed_args(words[words.index(verb) + 1 :])
        if unknown:
            raise HarnessError(
                f"{parser.prog}: unrecognized arguments: {' '.join(unknown)}; see `{parser.prog} --help`"
            )
        code: int = module.run(arguments)
        return code

    def _module(self, verb: str) -> ModuleType:
        return importlib.import_module(self.verbs[verb])

    def _root(self) -> Parser:
        root = Parser(prog=self.name, description=self.description)
        verbs = root.add_subparsers(metavar="VERB", required=False)
        for verb in self.verbs:
            verbs.add_parser(verb, help=self._module(verb).HELP)
        return root


def guarded(act: Callable[[], int]) -> int:
    """The exit code of `act`; what a user can mend is told in one line, without a traceback."""
    try:
        return act()
    except HarnessError as error:
        sys.stderr.write(f"error: {one_line(error)}\n")
        return EXIT_ERROR
    except BrokenPipeError:  # `... | head` closed our output: not our fault, and nothing to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE
    except OSError as error:
        sys.stderr.write(f"error: {told(error)}\n")
        return EXIT_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
