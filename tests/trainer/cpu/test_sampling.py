from __future__ import annotations

import pytest
import torch

from harness.trainer.cpu.sampling import draw, uniforms, warp


def slow_draw(probabilities: list[float], number: float) -> int:
    """The definition: the first token whose cumulative probability exceeds the number."""
    total = 0.0
    for token, probability in enumerate(probabilities):
        total += probability
        if total > number:
            return token
    return max(token for token, probability in enumerate(probabilities) if probability > 0)


def test_draw_is_the_inverse_cdf():
    torch.manual_seed(0)
    log_probs = torch.log_softmax(torch.randn(200, 17) * 3, dim=-1)
    numbers = uniforms(5, 200)
    tokens = draw(log_probs, numbers)
    expected = [slow_draw(row.double().exp().tolist(), float(u)) for row, u in zip(log_probs, numbers, strict=True)]
    assert tokens.tolist() == expected


@pytest.mark.parametrize("number", [0.0, 0.5, 1 - 2**-53])
def test_draw_never_takes_a_token_of_probability_zero(number):
    log_probs = torch.full((1, 8), float("-inf"))
    log_probs[0, [2, 5]] = torch.tensor([0.5, 0.5]).log()
    assert draw(log_probs, torch.tensor([number], dtype=torch.float64)).item() in (2, 5)


def test_uniforms_use_all_bits_of_the_seed_and_nothing_else():
    assert torch.equal(uniforms(3, 4), uniforms(3, 4))
    assert torch.equal(uniforms(3, 9)[:4], uniforms(3, 4))
    assert not torch.equal(uniforms(3, 4), uniforms(3 + 2**40, 4))


def test_warp_keeps_the_largest_and_the_nucleus():
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
    assert torch.isneginf(warp(logits, 1.0, 2, 1.0)).tolist() == [[False, False, True, True]]
    assert torch.isneginf(warp(logits, 1.0, -1, 0.7)).tolist() == [[False, False, True, True]]
    assert torch.isneginf(warp(logits, 1.0, -1, 0.1)).tolist() == [[False, True, True, True]]
    assert warp(logits, 0.5, -1, 1.0).exp().sum().item() == pytest.approx(1.0)
    assert torch.allclose(warp(logits, 0.5, -1, 1.0), torch.log_softmax(logits * 2, dim=-1))
