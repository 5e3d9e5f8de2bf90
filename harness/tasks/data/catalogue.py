"""The sets that the studies use, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import HarnessError, nearest

BUILTIN = "arithmetic"
"""The built-in task; it is made, not downloaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One set, as somebody published it."""

    name: str
    """Name of the prepared file, and of its files in conf/."""
    split: str
    """`train` or `test`: which scorer judges it (harness/tasks/scoring/reward.py)."""
    data_source: str
    """verl's name for it; the benchmark's name in tables. verl's own reward functions know `math_dapo` and `aime*`."""
    least: int | None = None
    """Fewest problems that it can have; None: any number."""
    most: int | None = None
    """Most problems that it can have."""
    repository: str | None = None
    """Dataset repository on the Hugging Face hub; None for a file of one's own."""
    file: str = ""
    """File in that repository."""
    whole_numbers: bool = False
    """Every answer is a whole number."""
    note: str = ""
    """What is known to go wrong with other copies of it."""

    @property
    def url(self) -> str:
        """Where a person with a browser finds the file."""
        return f"https://huggingface.co/datasets/{self.repository}/resolve/main/{self.file}" if self.repository else ""


_SOURCES = (
    Source(
        name="dapo_math_17k", split="train", data_source="math_dapo", least=17_000, most=18_000, whole_numbers=True,
        repository="BytedTsinghua-SIA/DAPO-Math-17k", file="data/dapo-math-17k.parquet",
        note="the published file holds every problem 100 times or more; repeats are dropped",
    ),
    Source(
        name="gsm8k_train", split="train", data_source="gsm8k", least=7_400, most=7_473, whole_numbers=True,
        repository="openai/gsm8k", file="main/train-00000-of-00001.parquet",
    ),
    Source(
        name="aime24", split="test", data_source="aime24", least=30, most=30, whole_numbers=True,
        repository="HuggingFaceH4/aime_2024", file="data/train-00000-of-00001.parquet",
        note="DAPO's aime-2024.parquet holds every problem 32 times",
    ),
    Source(
        name="aime25", split="test", data_source="aime25", least=30, most=30, whole_numbers=True,
        repository="math-ai/aime25", file="test.jsonl",
        note="some files hold only one of the two contests, 15 problems",
    ),
    Source(
        name="amc23", split="test", data_source="amc23", least=40, most=40, whole_numbers=True,
        repository="math-ai/amc23", file="test-00000-of-00001.parquet",
        note="the common file of 83 problems is AMC 2022 and 2023 together",
    ),
    Source(
        name="math500", split="test", data_source="math500", least=500, most=500,
        repository="HuggingFaceH4/MATH-500", file="test.jsonl",
    ),
    Source(
        name="gsm8k", split="test", data_source="gsm8k", least=1319, most=1319, whole_numbers=True,
        repository="openai/gsm8k", file="main/test-00000-of-00001.parquet",
    ),
)  # fmt: skip
SOURCES = {source.name: source for source in _SOURCES}


def find(name: str, split: str | None = None) -> Source:
    """The source of that name; with a `split` any other name stands for a file of one's own.

    Raises: HarnessError naming the nearest one.
    """
    if name in SOURCES:
        return SOURCES[name]
    if split is not None:
        return Source(name=name, split=split, data_source=name)
    raise HarnessError(
        f"no data set {name!r}; {nearest(name, [*SOURCES, BUILTIN])}; for a file of your own give --from FILE and "
        "--split train or --split test"
    )
