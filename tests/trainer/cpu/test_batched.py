from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

pytestmark = pytest.mark.slow  # imports verl

Send = Callable[[list], Awaitable[list]]


def converse(turns: dict[str, int], fail: bool = False) -> list[list[str]]:
    """Conversations of so many turns each through a BatchingClient; the batches that were sent."""
    from harness.trainer.cpu.batched import BatchingClient

    batches: list[list[str]] = []

    async def send(requests: list) -> list:
        await asyncio.sleep(0)
        if fail:
            raise RuntimeError("the server is gone")
        batches.append([prompt for prompt, _ in requests])
        return [f"answer to {prompt}" for prompt, _ in requests]

    async def conversation(client: BatchingClient, name: str, count: int) -> None:
        try:
            for turn in range(count):
                await asyncio.sleep(0.001 * len(name) * turn)  # arrive at different times
                answer = await client.generate("id", prompt_ids=f"{name}{turn}", sampling_params={})
                assert answer == f"answer to {name}{turn}"
        finally:
            client.end()

    async def everything() -> None:
        client = BatchingClient(send)
        client.begin(len(turns))
        await asyncio.gather(*(conversation(client, name, count) for name, count in turns.items()))

    asyncio.run(everything())
    return batches


def test_one_turn_each_is_one_batch():
    assert converse({"a": 1, "bb": 1, "ccc": 1}) == [["a0", "bb0", "ccc0"]]


def test_later_turns_wait_for_those_that_still_talk():
    assert converse({"a": 2, "bb": 1, "ccc": 3}) == [["a0", "bb0", "ccc0"], ["a1", "ccc1"], ["ccc2"]]


def test_a_conversation_without_a_request_holds_up_nobody():
    assert converse({"a": 0, "bb": 1}) == [["bb0"]]


def test_an_error_of_the_server_reaches_the_conversations():
    with pytest.raises(RuntimeError, match="the server is gone"):
        converse({"a": 1, "bb": 1}, fail=True)


def test_the_loop_runs_what_is_meant_for_threads_at_once():
    from harness.trainer.cpu.batched import _DirectLoop

    loop = _DirectLoop()
    try:
        assert loop.run_until_complete(loop.run_in_executor(None, lambda a, b: a + b, 1, 2)) == 3
        with pytest.raises(ZeroDivisionError):
            loop.run_until_complete(loop.run_in_executor(None, lambda: 1 / 0))
    finally:
        loop.close()
