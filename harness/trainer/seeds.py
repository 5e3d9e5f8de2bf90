"""Seeds of single responses: a function of what is asked, never of when or where it is answered.

Two runs of one specification, and a run before and after a kill, therefore sample the same tokens for the same query
of the same step. Arms that share a seed also share the uniform numbers of an evaluation, which pairs them; evaluations
at different steps are independent, so that averaging over them is sound.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

BITS = 53
"""Width of a seed: exact in a float64, as tables and JSON readers use it."""

TRAIN_UID = re.compile(r"s(\d{6,})p(\d{5,})")


def train_uid(step: int, position: int) -> str:
    """The uid of the `position`-th prompt drawn in a training step, e.g. s000012p00003.

    It holds neither "_", at which verl splits its keys, nor "pad", with which verl's padding rows start.
    """
    return f"s{step:06d}p{position:05d}"


def train_seed(seed: int, uid: str, query: str, sample: int) -> int:
    """Seed of one training response; `uid` holds the step and the position in it."""
    return _digest("train", seed, uid, query, sample)


def evaluation_seed(seed: int, step: int, query: str, sample: int) -> int:
    """Seed of one evaluation response; `query` is "<data_source>/<index>"."""
    return _digest("evaluation", seed, step, query, sample)


def request_seed(seed: int, *, uid: str, step: int, query: str, sample: int) -> int:
    """Seed of a request that verl's agent loop makes; evaluation prompts are those whose uid is not ours."""
    if TRAIN_UID.fullmatch(uid):
        return train_seed(seed, uid, query, sample)
    return evaluation_seed(seed, step, query, sample)


def query_name(data_source: Any, index: Any) -> str:
    """The name of a query or problem in all tables: "<data_source>/<index>"."""
    return f"{data_source}/{index}"


def _digest(*parts: Any) -> int:
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - BITS)
