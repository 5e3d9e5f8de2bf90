"""What a controller can be told to do."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Ask:
    """Propose a new cell and make it a trial."""


@dataclass(frozen=True, slots=True)
class Again:
    """Make a new trial of one that failed: its runs may be tried again."""

    trial: int


@dataclass(frozen=True, slots=True)
class Add:
    """Give a trial (its number) or a group (its name) a run of this seed, and start it."""

    to: int | str
    seed: int


@dataclass(frozen=True, slots=True)
class Start:
    """Start a run that is known and not done: again, or for the first time after a controller died in between."""

    run: str


@dataclass(frozen=True, slots=True)
class Tell:
    """The trial's value is known."""

    trial: int
    values: tuple[float, ...]
    constraints: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prune:
    """End a trial early; its live runs are cancelled and keep their data."""

    trial: int
    reason: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The trial gave no value."""

    trial: int
    reason: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop one run."""

    run: str
    reason: str


@dataclass(frozen=True, slots=True)
class Finalists:
    """The search is over: these trials get fresh seeds."""

    trials: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Winner:
    """The fresh seeds have named it."""

    trial: int


@dataclass(frozen=True, slots=True)
class Over:
    """Nothing is left to do."""

    reason: str


Action = Ask | Again | Add | Start | Tell | Prune | Fail | Cancel | Finalists | Winner | Over
