"""The typed settings of one run: what the groups of conf/ compose to, checked on construction."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from harness import quantile
from harness.config.architecture import Architecture
from harness.config.cluster import Cluster
from harness.errors import check, check_choice

MOST_SEED = 2**32 - 1
"""numpy takes no larger one."""
MOST_SAMPLES = 2**15 - 1
"""Outcome files number the samples of a problem in 16 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What is subtracted from the rewards of a group."""

    name: str
    """`mean` (GRPO), `qae`, `mean_no_std` (GRPO without the division by the standard deviation) or `rloo`."""
    K: float | None = None
    """Quantile level in (0, 1); the paper's default is 0.4. Only for `qae`."""
    mask: str = "both"
    """`both` is QAE; `positive` and `negative` are the paper's one-sided ablations POS-MASK and NEG-MASK."""
    interpolation: str = "exact"
    """`exact` is the definition inf{x : F(x) >= K}; `linear` is what the authors' code computes."""
    norm_by_std: bool = True
    """Divide by the standard deviation of the group."""
    success_threshold: float | None = None
    """Rewards at or above it are successes; needed by a mask where rewards take more than two values."""
    reference_K: float = 0.4
    """The K that splits hard from easy queries in the logs of a baseline that has no K itself."""

    def __post_init__(self) -> None:
        if self.name == "qae":
            check(
                self.K is not None, "baseline.K", self.K, "baseline qae needs a K strictly between 0 and 1, such as 0.4"
            )
        if self.K is not None:
            check(self.name == "qae", "baseline.K", self.K, f"baseline {self.name} has no K; use baseline=qae")
            check(0 < self.K < 1, "baseline.K", self.K, "K lies strictly between 0 and 1; the paper's default is 0.4")
        check(0 < self.reference_K < 1, "baseline.reference_K", self.reference_K, "lies strictly between 0 and 1")
        check_choice("baseline.mask", self.mask, quantile.MASKS)
        check_choice("baseline.interpolation", self.interpolation, quantile.INTERPOLATIONS)
        if self.K is not None:  # the estimator's own rules, asked before anything is queued
            quantile.QuantileSettings(
                K=self.K,
                mask=self.mask,
                interpolation=self.interpolation,
                norm_by_std=self.norm_by_std,
                success_threshold=self.success_threshold,
            )

    def rank(self, group_size: int) -> int | None:
        """The rank ceil(K*G) that decides an exact QAE run, None for every other baseline."""
        if self.name != "qae" or self.interpolation != "exact" or self.K is None:
            return None
        return quantile.rank(self.K, group_size)

    @property
    def label(self) -> str:
        """For legends and tables, such as `QAE K=0.4`."""
        if self.name != "qae":
            return {"mean": "mean (GRPO)", "mean_no_std": "mean, no std", "rloo": "RLOO"}.get(self.name, self.name)
        extra = {"both": "", "positive": " POS-MASK", "negative": " NEG-MASK"}[self.mask]
        extra += " linear" if self.interpolation == "linear" else ""
        return f"QAE{extra} K={self.K:g}" + ("" if self.norm_by_std else ", no std")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one run of a model takes from a machine or a cluster."""

    cpus: int = 2
    """Cores that the run keeps busy."""
    memory_gb: float = 6.0
    """Host memory of all its processes together, GiB."""
    gpus: int = 0
    """GPUs a node; 0 runs on the CPU platform."""
    nodes: int = 1
    """Machines that one run spans."""
    gpu_memory_gb: float = 80.0
    """Memory of one GPU, GiB; the plan's estimate is held against it."""

    def __post_init__(self) -> None:
        check(self.cpus >= 1, "model.resources.cpus", self.cpus, "at least 1")
        check(self.memory_gb > 0, "model.resources.memory_gb", self.memory_gb, "more than 0")
        check(self.gpus >= 0, "model.resources.gpus", self.gpus, "0 or more")
        check(self.nodes >= 1, "model.resources.nodes", self.nodes, "at least 1")
        check(self.gpu_memory_gb > 0, "model.resources.gpu_memory_gb", self.gpu_memory_gb, "more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The policy that is trained."""

    name: str
    """Name of the file in conf/model."""
    parameters: int
    """Number of parameters, for legends and estimates."""
    resources: Resources
    """What one run takes."""
    builtin: str | None = None
    """Name of a built-in model that is made on the spot; then `path` is filled in."""
    path: str | None = None
    """Folder or hub name of a Hugging Face model."""
    architecture: Architecture | None = None
    """Its shape, for estimates of memory and time; None: none are made."""

    def __post_init__(self) -> None:
        check(self.parameters > 0, "model.parameters", self.parameters, "a positive number")
        both = (self.builtin is None) == (self.path is None)
        check(not both, "model.path", self.path, "give either model.path or model.builtin, one of the two")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The optimisation around the baseline. What verl calls these is in the recipe's `verl` node."""

    name: str
    """Name of the file in conf/recipe."""
    group_size: int
    """G: responses a query."""
    prompts_per_step: int
    """Queries that enter one training step."""
    mini_batch: int
    """Queries of one optimiser update; it divides prompts_per_step."""
    learning_rate: float
    """Of the actor, without warm-up or decay unless `verl` says otherwise."""
    clip_low: float = 0.2
    """eps_low of the clipped ratio."""
    clip_high: float = 0.2
    """eps_high; DAPO's clip-higher uses 0.28."""

    def __post_init__(self) -> None:
        check(self.group_size >= 2, "recipe.group_size", self.group_size, "a group needs at least 2 responses")
        check(self.group_size <= MOST_SAMPLES, "recipe.group_size", self.group_size, f"at most {MOST_SAMPLES}")
        check(self.prompts_per_step >= 1, "recipe.prompts_per_step", self.prompts_per_step, "at least 1")
        check(
            self.mini_batch >= 1 and self.prompts_per_step % self.mini_batch == 0,
            "recipe.mini_batch", self.mini_batch, f"must divide recipe.prompts_per_step={self.prompts_per_step}",
        )  # fmt: skip
        check(self.learning_rate > 0, "recipe.learning_rate", self.learning_rate, "more than 0")
        for key, value in (("clip_low", self.clip_low), ("clip_high", self.clip_high)):
            check(value > 0, f"recipe.{key}", value, "more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """The training set."""

    name: str
    """Name of the file in conf/data."""
    max_prompt_length: int
    """Longest prompt, tokens."""
    max_response_length: int
    """Longest response, tokens; generation stops there."""
    overlong_buffer: int | None = None
    """The last so many of these tokens are penalised linearly by a recipe with overlong shaping (DAPO)."""
    builtin: str | None = None
    """Name of a built-in task whose files are made on the spot."""
    train_files: tuple[str, ...] = ()
    """Parquet files in verl's format, where it is not built in."""

    def __post_init__(self) -> None:
        both = (self.builtin is None) == (not self.train_files)
        check(not both, "data.train_files", list(self.train_files), "give either data.train_files or data.builtin")
        check(self.max_prompt_length >= 1, "data.max_prompt_length", self.max_prompt_length, "at least 1 token")
        check(self.max_response_length >= 1, "data.max_response_length", self.max_response_length, "at least 1 token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The evaluation sets and how often, and how, they are sampled."""

    name: str
    """Name of the file in conf/evaluation."""
    samples: int
    """Responses a problem."""
    temperature: float
    """Sampling temperature; the paper evaluates at 0.7."""
    every: int
    """Training steps between two evaluations; the last step is always evaluated."""
    k: tuple[int, ...] = (1, 16)
    """The k of the pass@k that are reported; none may exceed `samples`."""
    before_training: bool = True
    """Evaluate step 0."""
    builtin: str | None = None
    """Name of a built-in task whose evaluation sets are used."""
    files: tuple[str, ...] = ()
    """Parquet files in verl's format, where they are not built in."""

    def __post_init__(self) -> None:
        check(1 <= self.samples <= MOST_SAMPLES, "evaluation.samples", self.samples, f"1 to {MOST_SAMPLES}")
        check(self.temperature >= 0, "evaluation.temperature", self.temperature, "0 or more")
        check(self.every >= 1, "evaluation.every", self.every, "at least 1 step")
        check(bool(self.k), "evaluation.k", list(self.k), "name at least one k, such as [1]")
        for k in self.k:
            check(k >= 1, "evaluation.k", k, "k is 1 or more")
            check(
                k <= self.samples, "evaluation.k", k,
                f"pass@{k} needs at least {k} samples a problem: set evaluation.samples={k} (now {self.samples})",
            )  # fmt: skip
        both = (self.builtin is None) == (not self.files)
        check(not both, "evaluation.files", list(self.files), "give either evaluation.files or evaluation.builtin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    """Where W&B records the run."""

    name: str
    """`offline` (files under the run's folder), `online`, or `none`."""
    project: str = "qae"
    """W&B project."""
    entity: str | None = None
    """W&B entity; None is the account's default."""
    tags: tuple[str, ...] = ()
    """Further W&B tags."""

    def __post_init__(self) -> None:
        check_choice("tracking.name", self.name, ("offline", "online", "none"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run."""

    seed: int
    """Seeds sampling, data order and every other random choice."""
    steps: int
    """Training steps until the run is done."""
    save_every: int
    """Steps between two checkpoints; a killed run loses at most so many."""
    keep_checkpoints: int
    """How many of the latest checkpoints stay on disk."""
    keep_best: bool = False
    """The checkpoint with the best evaluated pass@1 stays too."""
    keep_every: int | None = None
    """And those at multiples of so many steps."""
    words: tuple[str, ...]
    """Words whose occurrences in responses are counted (the paper's anthropomorphic tokens)."""
    token_steps: tuple[int, ...]
    """Steps at which entropy per token id is recorded."""
    platform: str
    """`cuda` or `cpu`."""
    model: Model
    baseline: Baseline
    recipe: Recipe
    data: Data
    evaluation: Evaluation
    cluster: Cluster
    tracking: Tracking

    def __post_init__(self) -> None:
        check(0 <= self.seed <= MOST_SEED, "seed", self.seed, f"0 to {MOST_SEED}")
        check(self.steps >= 1, "steps", self.steps, "at least 1")
        check(self.save_every >= 1, "save_every", self.save_every, "at least 1")
        check(self.keep_checkpoints >= 1, "keep_checkpoints", self.keep_checkpoints, "at least 1: runs resume from it")
        check(self.keep_every is None or self.keep_every >= 1, "keep_every", self.keep_every, "at least 1 step")
        check_choice("platform", self.platform, ("cuda", "cpu"))
        buffer, longest = self.data.overlong_buffer, self.data.max_response_length
        check(
            buffer is None or 1 <= buffer < longest, "data.overlong_buffer", buffer,
            f"must lie between 1 and data.max_response_length={longest}, exclusive",
        )  # fmt: skip
        mixed = self.data.builtin is not None and self.evaluation.builtin is None
        check(
            not mixed, "evaluation", self.evaluation.name,
            f"data={self.data.name} is built in and has its own scorer: choose evaluation={self.data.name}",
        )  # fmt: skip
        gpus = self.model.resources.gpus
        check(
            (self.platform == "cuda") == (gpus > 0), "model.resources.gpus", gpus,
            f"platform={self.platform} needs {'at least 1 GPU' if self.platform == 'cuda' else '0 GPUs'}",
        )  # fmt: skip

    @property
    def label(self) -> str:
        """For people, such as `QAE K=0.4, tiny, seed 1`."""
        return f"{self.baseline.label}, {self.model.name}, seed {self.seed}"

    def placed(self) -> Settings:
        """With the cluster's own nodes, GPUs, cores and memory in place of the model's, where SLURM runs it."""
        cluster = self.cluster
        asked = {
            "gpus": cluster.gpus_per_node, "nodes": cluster.nodes, "cpus": cluster.cpus, "memory_gb": cluster.memory_gb
        }  # fmt: skip
        wanted = {key: value for key, value in asked.items() if value is not None}
        if not wanted or cluster.launcher != "slurm":
            return self
        resources = dataclasses.replace(self.model.resources, **wanted)  # type: ignore[arg-type]
        return dataclasses.replace(self, model=dataclasses.replace(self.model, resources=resources))
