"""The tokenizer and the warm start: repeatable, and landing where both regimes of QAE exist."""

from __future__ import annotations

import pytest

from harness.quantile import is_hard
from harness.tasks.builtin import arithmetic, build, identity

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

SAMPLES = 16


def encoded(tokenizer, problem):
    message = [{"role": "user", "content": problem.prompt}]
    return tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=False)


@torch.no_grad()
def success_rates(model, tokenizer, problems):
    """(problems,) share of right answers among 16 responses sampled at temperature 1."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.tensor([encoded(tokenizer, p) for p in problems]).repeat_interleave(SAMPLES, 0)
    cache, sampled = None, []
    for _ in range(8):
        output = model(input_ids=tokens, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        tokens = torch.multinomial(output.logits[:, -1].softmax(-1), 1, generator=generator)
        sampled.append(tokens)
    right = []
    for row, problem in zip(torch.cat(sampled, 1).tolist(), [p for p in problems for _ in range(SAMPLES)], strict=True):
        end = row.index(tokenizer.eos_token_id) if tokenizer.eos_token_id in row else len(row)
        right.append(float(arithmetic.predicted(tokenizer.decode(row[:end])) == problem.answer))
    return torch.tensor(right).view(-1, SAMPLES).mean(1)


def test_a_question_is_one_begin_token_and_one_token_a_character():
    tokenizer = build.tokenizer()
    problem = arithmetic.evaluation_set("arithmetic_hard")[0]
    ids = encoded(tokenizer, problem)
    assert len(ids) == 1 + len(problem.prompt)
    assert tokenizer.decode(ids) == build.BEGIN + problem.prompt
    assert tokenizer.decode(ids, skip_special_tokens=True) == problem.prompt


def test_a_response_survives_the_tokenizer():
    tokenizer = build.tokenizer()
    ids = tokenizer.encode("15;65", add_special_tokens=False) + [tokenizer.eos_token_id]
    assert len(ids) == 6
    assert tokenizer.decode(ids, skip_special_tokens=True) == "15;65"


@pytest.mark.slow
def test_the_warm_start_is_repeatable_and_leaves_the_callers_state_alone(monkeypatch):
    monkeypatch.setitem(identity.WARM_START, "tiny", {**identity.WARM_START["tiny"], "steps": 3})
    tokenizer, threads, state = build.tokenizer(), torch.get_num_threads(), torch.get_rng_state()
    first = build.warm_start("tiny", tokenizer).state_dict()
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(12345)
    second = build.warm_start("tiny", tokenizer).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.slow
@pytest.mark.parametrize("name, parameters", [("tiny", 0.3e6), ("small", 1e6)])
def test_the_warm_start_lands_where_hard_and_easy_queries_both_exist(name, parameters):
    tokenizer = build.tokenizer()
    model = build.warm_start(name, tokenizer)
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(parameters, rel=0.1)
    easy, hard = (success_rates(model, tokenizer, arithmetic.evaluation_set(b)) for b in arithmetic.BENCHMARKS)
    both = torch.cat([easy, hard])
    assert 0.3 < both.mean() < 0.6
    assert easy.mean() > hard.mean() + 0.2
    for K in (0.2, 0.4, 0.8):  # each regime holds some queries at every level that a sweep is likely to ask for
        regimes = [is_hard(round(p * SAMPLES), SAMPLES, K) for p in both.tolist()]
        assert 0.02 < sum(regimes) / len(regimes) < 0.98
    decided = ((both == 0) | (both == 1)).float().mean()
    assert decided < 0.2  # all-equal groups teach nothing
