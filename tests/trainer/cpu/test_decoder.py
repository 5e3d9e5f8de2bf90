from __future__ import annotations

import pytest
import torch

from harness.errors import HarnessError
from harness.trainer.cpu.decoder import Decoder, Request, Style
from harness.trainer.cpu.sampling import draw, uniforms, warp

pytestmark = pytest.mark.slow  # many trials, models or processes


@pytest.fixture(scope="module")
def model():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    config = transformers.Qwen3Config(
        vocab_size=23,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=64,
        tie_word_embeddings=True,
    )
    return transformers.Qwen3ForCausalLM(config).eval()


def slow_complete(model, request: Request, end: set[int]) -> list[int]:
    """One request alone, without a cache and without padding."""
    numbers, ids, drawn = uniforms(request.seed, request.limit), list(request.prompt), []
    for step in range(request.limit):
        logits = model(input_ids=torch.tensor([ids])).logits[:, -1].float()
        if request.style.temperature == 0:
            token = int(logits.argmax())
        else:
            log_probs = warp(logits, request.style.temperature, request.style.top_k, request.style.top_p)
            token = int(draw(log_probs, numbers[step : step + 1]))
        drawn.append(token)
        ids.append(token)
        if token in end:
            break
    return drawn


def requests() -> list[Request]:
    mixed = [
        Request(prompt=tuple(range(1, 2 + i % 5)), limit=3 + i % 6, seed=100 + i, style=Style(temperature=0.7 + i % 2))
        for i in range(20)
    ]
    return [*mixed, Request(prompt=(1, 2, 3), limit=6, seed=9, style=Style(temperature=0.0))]


def test_a_batch_answers_as_each_request_alone_would_be(model):
    end = {4, 5}
    decoder = Decoder(model, frozenset(end), pad=0, max_batch=6)
    with torch.inference_mode():
        expected = [slow_complete(model, request, end) for request in requests()]
    assert [answer.tokens for answer in decoder.complete(requests())] == expected
    assert any(len(tokens) < request.limit for tokens, request in zip(expected, requests(), strict=True))


def test_answers_do_not_depend_on_the_order_of_arrival(model):
    decoder = Decoder(model, frozenset({4}), pad=0, max_batch=8)
    forward = decoder.complete(requests())
    backward = decoder.complete(requests()[::-1])
    assert backward[::-1] == forward  # log-probabilities included, bit by bit


def test_log_probabilities_are_those_of_the_drawn_tokens(model):
    request = Request(prompt=(1, 2), limit=4, seed=1, style=Style(temperature=0.5))
    answer = Decoder(model, frozenset(), pad=0).complete([request])[0]
    ids = torch.tensor([[*request.prompt, *answer.tokens]])
    with torch.inference_mode():
        log_probs = torch.log_softmax(model(input_ids=ids).logits[0, 1:-1].float() / 0.5, dim=-1)
    expected = log_probs.gather(-1, torch.tensor(answer.tokens).unsqueeze(-1)).squeeze(-1)
    assert answer.log_probs == pytest.approx(expected.tolist(), abs=1e-5)


def test_reading_verl_parameters():
    parameters = {"temperature": 0.7, "top_p": 0.9, "top_k": 5, "repetition_penalty": 1.0, "logprobs": True, "seed": 3}
    request = Request.read([1, 2], parameters, limit=8, seed=99)
    assert request == Request(prompt=(1, 2), limit=8, seed=3, style=Style(temperature=0.7, top_p=0.9, top_k=5))
    assert Request.read([1], {"max_tokens": 2}, limit=8, seed=99) == Request(prompt=(1,), limit=2, seed=99)


@pytest.mark.parametrize(
    "prompt, parameters, words",
    [
        ([1], {"min_p": 0.1}, "min_p=0.1"),
        ([1], {"repetition_penalty": 1.2}, "repetition_penalty=1.2"),
        ([], {}, "empty prompt"),
    ],
)
def test_what_the_server_cannot_do_is_an_error_by_name(prompt, parameters, words):
    with pytest.raises(HarnessError, match=words):
        Request.read(prompt, parameters, limit=8, seed=0)
