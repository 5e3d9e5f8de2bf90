"""A study file: what is searched, how trials are judged, and what it may cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.config import grid as sweep
from harness.config.typed import construct
from harness.errors import HarnessError, check, check_choice, nearest
from harness.search import space

FOLDER = "search"
"""Of sweeps/: where study files lie."""
SAMPLERS = ("auto", "grid", "tpe", "gp", "random")


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What a run is worth: the mean of its last evaluations, from the outcome files."""

    last: int = 2
    """How many of the last evaluations are averaged."""
    benchmarks: tuple[str, ...] = ()
    """Validation sets that count, equally; none given: all that the run evaluates. Never the set that is reported."""
    pass_k: int = 16
    """The k of the second objective and of the constraint."""
    multi: bool = False
    """Search for the front of pass@1 and pass@k instead of pass@1 alone."""

    def __post_init__(self) -> None:
        check(self.last >= 1, "objective.last", self.last, "at least 1 evaluation")
        check(self.pass_k >= 2, "objective.pass_k", self.pass_k, "at least 2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What a winner must keep to. A trial outside is told with its violation and cannot win."""

    entropy_low: float | None = None
    """Nats a token, mean over the last part of training."""
    entropy_high: float | None = None
    part: float = 0.25
    """The last part of training that counts."""
    pass_k_drop: float | None = None
    """pass@k may lie at most so much below the mean baseline's, in [0, 1]."""

    def __post_init__(self) -> None:
        low, high = self.entropy_low, self.entropy_high
        check(low is None or high is None or low < high, "constraints.entropy_low", low, f"must be below {high}")
        check(0 < self.part <= 1, "constraints.part", self.part, "lies in (0, 1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeds:
    """How many training runs a trial gets."""

    first: int = 1
    """Seed of every trial's first run; further ones count up."""
    most: int = 5
    """Runs a trial gets at most while searching."""
    sd: float = 0.02
    """Expected standard deviation of the objective over seeds; counts like four degrees of freedom beside the data."""
    doubt: float = 3.0
    """A trial stays in while its mean is less than so many standard errors of the difference below the best."""
    retries: int = 1
    """How often a failed run is tried again before its seed is given up."""

    def __post_init__(self) -> None:
        check(self.first >= 0, "seeds.first", self.first, "0 or more")
        check(self.most >= 1, "seeds.most", self.most, "at least 1")
        check(self.sd > 0, "seeds.sd", self.sd, "more than 0")
        check(self.doubt >= 0, "seeds.doubt", self.doubt, "0 or more")
        check(self.retries >= 0, "seeds.retries", self.retries, "0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirm:
    """The last round, on seeds that no choice was made by."""

    trials: int = 3
    """At most so many of the best trials enter it."""
    seeds: int = 3
    """Fresh seeds for each of them, and for what they are compared with."""
    first: int = 1001
    """The first fresh seed."""
    compare: tuple[str, ...] = ("mean", "paper")
    """`mean` baseline and the `paper`'s K = 0.4 get the same fresh seeds."""

    def __post_init__(self) -> None:
        check(self.trials >= 1, "confirm.trials", self.trials, "at least 1")
        check(self.seeds >= 0, "confirm.seeds", self.seeds, "0 or more; 3 for a claim about the method")
        for name in self.compare:
            check_choice("confirm.compare", name, ("mean", "paper"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """When a first run is cancelled: Wilcoxon signed-rank on per-problem outcomes against the best trial, and health.

    Successive halving compares ranks within a rung: it needs many trials at once and takes noise for order. The paired
    test uses what every evaluation has, the same problems, and works from the second trial on.
    """

    wilcoxon: bool = True
    alpha: float = 0.01
    """One-sided level. It knows noise over problems only, so the deficit must be beyond what seeds make, too."""
    deficit: float = 0.05
    """pass@1 must lie at least so far below the best trial's at the same steps, and further than `seeds` allow for."""
    after: float = 0.5
    """Share of training before which nothing is pruned by outcomes: curves cross early."""
    health: bool = True
    """Cancel on entropy collapse or explosion, and on NaN (analysis.statistics.entropy)."""

    def __post_init__(self) -> None:
        check(0 < self.alpha < 0.5, "pruning.alpha", self.alpha, "lies in (0, 0.5)")
        check(self.deficit >= 0, "pruning.deficit", self.deficit, "0 or more")
        check(0 <= self.after <= 1, "pruning.after", self.after, "lies in [0, 1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the whole study may take, the confirmation included."""

    runs: int
    """Training runs, the mean baseline's too; runs that the store had already cost nothing."""
    gpu_hours: float | None = None
    """GPU-hours, hours of the machine where a run takes no GPU."""

    def __post_init__(self) -> None:
        check(self.runs >= 1, "budget.runs", self.runs, "at least 1")
        check(self.gpu_hours is None or self.gpu_hours > 0, "budget.gpu_hours", self.gpu_hours, "more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrow:
    """Leaves ranks out that a finished mean-baseline run's rewards already speak against (harness replay)."""

    run: str
    """Id of the run."""
    most_zero: float = 0.98
    """Ranks of whose responses more than this share would have had no advantage are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Evaluated for the winner alone, after it was named."""

    overrides: tuple[str, ...]
    """Such as [evaluation=paper]."""
    seeds: int = 1
    """Runs of the winner, on fresh seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All typed parts of a study file."""

    budget: Budget
    objective: Objective = field(default_factory=Objective)
    constraints: Constraints = field(default_factory=Constraints)
    seeds: Seeds = field(default_factory=Seeds)
    confirm: Confirm = field(default_factory=Confirm)
    pruning: Pruning = field(default_factory=Pruning)
    narrow: Narrow | None = None
    held_out: HeldOut | None = None
    in_flight: int = 1
    """Runs at once."""
    sampler: str = "auto"
    """`auto`: the full grid where it fits the budget, else TPE with constant liar; or one of grid, tpe, gp, random."""
    sampler_seed: int = 1
    low_entropy: bool = False
    """Whether the mean baseline's entropy is low: then 0.6 is tried before 0.4."""

    def __post_init__(self) -> None:
        check(self.in_flight >= 1, "in_flight", self.in_flight, "at least 1")
        check_choice("sampler", self.sampler, SAMPLERS)


@dataclass(frozen=True, slots=True)
class Study:
    """A study, read and checked."""

    name: str
    question: str
    overrides: tuple[str, ...]
    """What every run shares."""
    space: space.Space
    rules: Rules
    file: Path
    definition: Mapping[str, Any]
    """What must not change once the study has begun."""

    @property
    def sweep(self) -> str:
        """Under which name its runs are filed in the store."""
        return f"{FOLDER}/{self.name}"

    def reserve(self) -> int:
        """Runs that confirmation and held-out evaluation will take."""
        confirm = self.rules.confirm
        held = self.rules.held_out.seeds if self.rules.held_out else 0
        return (confirm.trials + len(confirm.compare)) * confirm.seeds + held

    def sampler(self, left_out: int = 0) -> str:
        """The sampler that is used. The grid fits if every cell gets a run and half of them a second one.

        Args:
            left_out: cells that a replay spoke against.
        """
        if self.rules.sampler != "auto":
            return self.rules.sampler
        cells = self.space.cells()
        room = self.rules.budget.runs - self.reserve()
        return "grid" if cells is not None and 1.5 * (len(cells) - left_out) <= room else "tpe"


def folder() -> Path:
    """Where study files lie."""
    return sweep.folder() / FOLDER


def names() -> list[str]:
    """Names of all studies."""
    return sorted(path.stem for path in folder().glob("*.yaml"))


def load(name: str, extra: Sequence[str] = ()) -> Study:
    """Reads sweeps/search/NAME.yaml; `extra` are overrides of cluster and tracking for this call.

    Raises: HarnessError naming the file and key, and the nearest valid one; for an override of anything else.
    """
    from harness.config import strictyaml
    from harness.config.compose import compose

    name = name.removeprefix(f"{FOLDER}/")
    path = folder() / f"{name}.yaml"
    try:
        content = strictyaml.read(path)
    except FileNotFoundError:
        hint = f"it is a sweep: `harness sweep {name}`" if name in sweep.names() else nearest(name, names())
        raise HarnessError(f"study {name!r}: {path} does not exist; {hint or 'there is none yet'}") from None
    known = {"question", "overrides", "space", *(f.name for f in dataclasses.fields(Rules))}
    if not isinstance(content, dict):
        raise HarnessError(f"{path.name}: expected a mapping with the keys {', '.join(sorted(known))}")
    for key in content:
        if key not in known:
            raise HarnessError(f"{path.name}: unknown key {key!r}; {nearest(str(key), known)}")
    overrides = content.get("overrides") or []
    if not isinstance(overrides, list) or not all(isinstance(item, str) for item in overrides):
        raise HarnessError(f"{path.name}: overrides={overrides!r}: expected a list such as [model=tiny, recipe=dapo]")
    for text in extra:
        if text.partition("=")[0].partition(".")[0] not in ("cluster", "tracking"):
            raise HarnessError(
                f"override {text!r}: a study's runs must stay alike: only cluster and tracking may change"
            )
    typed = {key: value for key, value in content.items() if key not in ("question", "overrides", "space")}
    try:
        rules = construct(Rules, typed)
        settings = compose((*overrides, *extra, "baseline=qae", f"seed={rules.seeds.first}")).settings
    except HarnessError as error:
        raise HarnessError(f"{path.name}: {error}") from None
    found = space.read(
        content.get("space"), settings.recipe.group_size, settings.baseline.interpolation, path.name
    )  # fmt: skip
    if rules.objective.pass_k > settings.evaluation.samples:
        raise HarnessError(
            f"{path.name}: objective.pass_k={rules.objective.pass_k}: runs have evaluation.samples="
            f"{settings.evaluation.samples}; ask for a smaller k or for more samples"
        )
    study = Study(
        name, str(content.get("question") or "").strip(), (*overrides, *extra), found, rules, path,
        {"overrides": list(overrides), "space": content.get("space"), "objective": dataclasses.asdict(rules.objective),
         "seed": rules.seeds.first, "fresh": rules.confirm.first},
    )  # fmt: skip
    _check(study)
    return study


def _check(study: Study) -> None:
    rules, where = study.rules, study.file.name
    least = study.reserve() + 1
    check(
        rules.budget.runs >= least, f"{where}: budget.runs", rules.budget.runs,
        f"confirmation and held-out evaluation alone take {study.reserve()}: give at least {least}",
    )  # fmt: skip
    fresh = range(rules.confirm.first, rules.confirm.first + rules.confirm.seeds)
    used = range(rules.seeds.first, rules.seeds.first + rules.seeds.most + 2)
    check(not set(fresh) & set(used), f"{where}: confirm.first", rules.confirm.first, "must be seeds no search run has")
    check(
        rules.sampler != "grid" or study.space.cells() is not None, f"{where}: sampler", "grid",
        "an axis is continuous: give it a step, or take tpe",
    )  # fmt: skip
