"""Writes the built-in data and trains the built-in models; the only module of the task that needs torch."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.tasks.builtin import arithmetic
from harness.tasks.builtin.arithmetic import Problem
from harness.tasks.builtin.identity import ARCHITECTURE, SPECIAL_TOKENS, WARM_START

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

PAD, BEGIN, END = SPECIAL_TOKENS
_IGNORED = -100  # no loss there (torch's cross entropy)


def write_data(folder: Path) -> None:
    """Train and evaluation files in verl's format (verl/utils/dataset/rl_dataset.py)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sets = {"train": arithmetic.training_set()} | {n: arithmetic.evaluation_set(n) for n in arithmetic.BENCHMARKS}
    for name, problems in sets.items():
        rows = [_row(problem, "train" if name == "train" else "test") for problem in problems]
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")


def _row(problem: Problem, split: str) -> dict[str, Any]:
    return {
        "data_source": problem.benchmark,
        "prompt": [{"role": "user", "content": problem.prompt}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": problem.answer},
        "extra_info": {"split": split, "index": problem.index},
    }


def tokenizer() -> PreTrainedTokenizerFast:
    """One token a character; a chat is its messages after a begin token."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: i for i, token in enumerate([PAD, BEGIN, END, *arithmetic.CHARACTERS])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token=PAD))
    raw.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    raw.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token=PAD, bos_token=BEGIN, eos_token=END)
    fast.chat_template = "{{ bos_token }}{% for message in messages %}{{ message['content'] }}{% endfor %}"
    return fast


def write_model(folder: Path, name: str) -> None:
    """A warm-started model and its tokenizer, as a Hugging Face folder."""
    fast = tokenizer()
    model = warm_start(name, fast)
    model.generation_config.eos_token_id = fast.eos_token_id
    model.generation_config.pad_token_id = fast.pad_token_id
    fast.save_pretrained(folder)
    model.save_pretrained(folder)


def warm_start(name: str, fast: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A fixed number of supervised steps on demonstrations, both difficulties alike, from fixed seeds."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    recipe = WARM_START[name]
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(1)  # the same sums in the same order, whatever the machine
    torch.manual_seed(recipe["seed"])
    rng = random.Random(recipe["seed"])
    try:
        model = Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=len(fast), max_position_embeddings=64, tie_word_embeddings=True, bos_token_id=1,
                eos_token_id=fast.eos_token_id, pad_token_id=fast.pad_token_id,
                **ARCHITECTURE[name],
            )
        )  # fmt: skip
        optimizer = torch.optim.AdamW(model.parameters(), lr=recipe["learning_rate"], betas=(0.9, 0.99))
        shown = [arithmetic.demonstrated_set(benchmark) for benchmark in arithmetic.BENCHMARKS]
        for step in range(recipe["steps"]):
            warm = min(1.0, (step + 1) / 30) * (1 - 0.9 * step / recipe["steps"])
            for group in optimizer.param_groups:
                group["lr"] = recipe["learning_rate"] * warm
            chosen = [rng.choice(rng.choice(shown)) for _ in range(recipe["batch"])]
            ids, labels = _batch(fast, chosen, rng, recipe)
            loss = model(input_ids=torch.tensor(ids), labels=torch.tensor(labels)).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return model.eval()
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(state)


def _batch(
    fast: PreTrainedTokenizerFast, problems: list[Problem], rng: random.Random, recipe: Mapping[str, Any]
) -> tuple[list[list[int]], list[list[int]]]:
    """Token ids and labels, right-padded; the loss is on the response and its end alone."""
    rows = []
    for problem in problems:
        prompt = fast.encode(BEGIN + problem.prompt)
        response = fast.encode(arithmetic.demonstration(problem, rng, recipe["slip_share"])) + [fast.eos_token_id]
        rows.append((prompt, response))
    width = max(len(p) + len(r) for p, r in rows)
    ids = [p + r + [fast.pad_token_id] * (width - len(p) - len(r)) for p, r in rows]
    labels = [[_IGNORED] * len(p) + r + [_IGNORED] * (width - len(p) - len(r)) for p, r in rows]
    return ids, labels
