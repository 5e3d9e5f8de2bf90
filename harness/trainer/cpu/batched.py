"""Agent loops in the trainer's process, whose requests reach the rollout server as one batch.

verl runs every response as a chain of remote calls: load balancer, server, reward worker, transfer queue. With a model
that answers in milliseconds this bookkeeping is nearly all of a step, and its three extra processes are a good part of
the start. Here the same agent loops and the same reward manager run in the trainer's process; requests are collected
until every unfinished conversation waits for one, then decoded together. A batch therefore depends on what is asked and
never on timing. Chosen through verl's `rollout.agent.agent_loop_manager_class`; `harness.batched_rollout=false` leaves
it to verl's own workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import hydra
import ray
import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.experimental.agent_loop.agent_loop import (
    AgentLoopOutput,
    DictConfigWrap,
    ToolListWrap,
    _agent_loop_registry,
)
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ, apply_greedy_sampling_params
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.workers.rollout.replica import TokenOutput

from harness.errors import HarnessError
from harness.trainer.cpu.rollout import server_name
from harness.trainer.outcomes import split_key

PATH = f"{__name__}.BatchedAgentLoopManager"

PROMPT_COLUMNS = ("uid", "index", "data_source", "reward_model")
"""What is kept of a prompt: the columns that verl's trainer or ours read after the rollout."""

UNREAD = ("multi_modal_data", "mm_processor_kwargs", "mm_processor_output", "metrics")
"""What is dropped of an agent loop's output."""


@dataclass(slots=True)
class _Waiting:
    prompt: list[int]
    parameters: dict[str, Any]
    answer: asyncio.Future[TokenOutput]


@dataclass(frozen=True, slots=True)
class Row:
    """One response as verl keeps it in the transfer queue."""

    key: str
    """ "<uid>_<sample>_<turn>"."""
    columns: dict[str, Any]
    """Tensors without a batch dimension, and other values."""
    tag: dict[str, Any]
    """What verl's controller knows about the row."""


class BatchingClient:
    """Has the one method of verl's LLMServerClient that agent loops call; sends when every conversation waits."""

    def __init__(self, send: Callable[[list[tuple[list[int], dict[str, Any]]]], Awaitable[list[TokenOutput]]]) -> None:
        """Args:
        send: answers a list of (prompt ids, sampling parameters) in order.
        """
        self.send = send
        self.unfinished = 0
        self.waiting: list[_Waiting] = []
        self.sending: set[asyncio.Task[None]] = set()

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        """One response; images and the like are ignored, as by the CPU rollout server."""
        answer: asyncio.Future[TokenOutput] = asyncio.get_running_loop().create_future()
        self.waiting.append(_Waiting(prompt_ids, sampling_params, answer))
        self._send_if_all_wait()
        return await answer

    def begin(self, conversations: int) -> None:
        """Announces conversations that will ask, so that none is decoded ahead of the others."""
        self.unfinished += conversations

    def end(self) -> None:
        """A conversation asks no more."""
        self.unfinished -= 1
        self._send_if_all_wait()

    def _send_if_all_wait(self) -> None:
        if self.waiting and len(self.waiting) == self.unfinished:
            batch, self.waiting = self.waiting, []
            task = asyncio.create_task(self._answer(batch))
            self.sending.add(task)
            task.add_done_callback(self.sending.discard)

    async def _answer(self, batch: list[_Waiting]) -> None:
        try:
            outputs = await self.send([(request.prompt, request.parameters) for request in batch])
        except Exception as error:  # whatever it is belongs to the conversations: they wait for an answer
            for request in batch:
                request.answer.set_exception(error)
            return
        for request, output in zip(batch, outputs, strict=True):
            request.answer.set_result(output)


class _LocalReward:
    """A reward worker in this process, called as verl calls the remote one: `worker.compute_score.remote(data)`."""

    class _Call:
        def __init__(self, function: Callable[[Any], Awaitable[dict[str, Any]]]) -> None:
            self.remote = function

    def __init__(self, config: Any) -> None:
        self.compute_score = self._Call(RewardLoopWorker(config).compute_score)


class _LocalWorker(AgentLoopWorkerTQ.__ray_metadata__.modified_class):  # type: ignore[name-defined]
    """verl's agent loop worker without its process: it keeps what it would put into the transfer queue row by row."""

    def __init__(self, config: Any, client: BatchingClient) -> None:
        super().__init__(config, client, None, [_LocalReward(config)])
        self.loops: dict[str, Any] = {}
        self.rows: list[Row] = []

    async def answer(self, prompts: TensorDict) -> list[Row]:
        """Rows of all responses to the prompts; an error of one ends the call."""
        self.rows = []
        self.llm_client.begin(len(prompts))  # one placeholder a prompt: none is decoded before all have begun
        await self.generate_sequences(prompts.copy())
        await asyncio.gather(*self.background_tasks)
        return sorted(self.rows, key=lambda row: split_key(row.key))

    async def _run_prompt(
        self, prompt: dict[str, Any], sampling_params: dict[str, Any], trajectory: dict[str, Any], trace: bool = False
    ) -> None:
        rollout = self.config.actor_rollout_ref.rollout
        validate = trajectory["validate"]
        samples = prompt.pop("__rollout_n__", rollout.val_kwargs.n if validate else rollout.n)
        parameters = dict(sampling_params)
        if not prompt.pop("__do_sample__", True) and not validate:
            apply_greedy_sampling_params(parameters)
        self.llm_client.begin(samples)
        self.llm_client.end()
        conversations = (self._run_agent_loop(parameters, trajectory, session_id=i, **prompt) for i in range(samples))
        await asyncio.gather(*conversations)

    async def _run_agent_loop(
        self,
        sampling_params: dict[str, Any],
        trajectory: dict[str, Any],
        *,
        agent_name: str,
        trace: bool = True,
        **fields: Any,
    ) -> None:
        try:
            output = await self._loop(agent_name).run(sampling_params, **fields)
        finally:
            self.llm_client.end()
        outputs = output if isinstance(output, list) else [output]
        await self._compute_score(outputs, kwargs=fields)
        for earlier in outputs[:-1]:  # of a loop that returns its turns one by one: they share the last one's reward
            earlier.reward_score = outputs[-1].reward_score
            earlier.extra_fields["reward_extra_info"] = outputs[-1].extra_fields["reward_extra_info"]
        for turn, one in enumerate(outputs):
            self.rows.append(self._row(f"{fields['uid']}_{fields['session_id']}_{turn}", one, fields))

    def _row(self, key: str, output: AgentLoopOutput, fields: dict[str, Any]) -> Row:
        """The tags that AgentLoopWorkerTQ._agent_loop_postprocess writes, and its columns but for those that nobody
        reads again: every later step of the trainer copies all of them, row by row."""
        columns = {name: value for name, value in output.as_dict().items() if name not in UNREAD}
        columns |= {name: fields[name] for name in PROMPT_COLUMNS if name in fields}
        ids = torch.cat([columns["prompts"], columns["responses"]])
        extra = columns["extra_fields"]
        columns |= {
            "loss_mask": columns["response_mask"],
            "input_ids": ids,
            "position_ids": torch.arange(len(ids)),
        }
        tag = {
            "status": "success",
            "prompt_len": len(columns["prompts"]),
            "response_len": len(columns["responses"]),
            "seq_len": len(ids),
            "global_steps": fields["global_steps"],
            "min_global_steps": extra.get("min_global_steps"),
            "max_global_steps": extra.get("max_global_steps"),
        }
        return Row(key, columns, tag)

    def _loop(self, name: str) -> Any:
        # One instance for all conversations: verl's single-turn loops keep no state between calls of `run`.
        if name not in self.loops:
            if name not in _agent_loop_registry:
                raise HarnessError(f"agent loop {name!r} is not registered: use one of {sorted(_agent_loop_registry)}")
            self.loops[name] = hydra.utils.instantiate(
                config=_agent_loop_registry[name],
                trainer_config=DictConfigWrap(config=self.config),
                server_manager=self.llm_client,
                tokenizer=self.tokenizer,
                processor=self.processor,
                hf_model_type=self.hf_model_type,
                dataset_cls=self.dataset_cls,
                data_config=DictConfigWrap(self.config.data),
                tools=ToolListWrap(self.tools),
            )
        return self.loops[name]


class _DirectLoop(asyncio.SelectorEventLoop):
    """An event loop that calls what is meant for threads at once.

    verl's agent loops and reward managers send each tokenisation and each scoring to a thread, so as not to hold up
    others in the same process; here nobody else waits, and the change of threads costs more than most of the calls.
    """

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        result: asyncio.Future[Any] = self.create_future()
        try:
            result.set_result(func(*args))
        except Exception as error:  # as an executor does: the caller gets it from the future
            result.set_exception(error)
        return result


class BatchedAgentLoopManager:
    """What verl's task runner makes in place of AgentLoopManagerTQ (verl/trainer/main_ppo.py)."""

    def __init__(self, config: Any) -> None:
        """Args:
        config: verl's whole config.
        """
        self.servers = [
            ray.get_actor(server_name(rank)) for rank in range(config.trainer.nnodes * config.trainer.n_gpus_per_node)
        ]
        self.events = _DirectLoop()
        self.worker = self.events.run_until_complete(self._start(config))

    @classmethod
    def create(cls, config: Any, **_: Any) -> BatchedAgentLoopManager:
        """The manager; clients and reward workers that verl passes are not needed."""
        return cls(config)

    def generate_sequences(self, prompts: TensorDict) -> None:
        """Puts all responses to the prompts into the transfer queue, then marks the prompts finished.

        Returns only then, unlike verl's manager; its callers wait for the responses next in any case.
        """
        partition = "val" if "validate" in prompts and prompts["validate"] else "train"
        uids = [str(uid) for uid in prompts["uid"]]
        rows = self.events.run_until_complete(self.worker.answer(prompts))
        columns = list_of_dict_to_tensordict([row.columns for row in rows])
        keys, tags = [row.key for row in rows], [row.tag for row in rows]
        tq.kv_batch_put(keys=keys, partition_id=partition, fields=columns, tags=tags)
        tq.kv_batch_put(keys=uids, partition_id=partition, tags=[{"status": "finished"} for _ in uids])

    async def _start(self, config: Any) -> _LocalWorker:
        return _LocalWorker(config, BatchingClient(self._send))  # its parts bind to the running event loop

    async def _send(self, requests: list[tuple[list[int], dict[str, Any]]]) -> list[TokenOutput]:
        order = sorted(range(len(requests)), key=lambda i: (list(requests[i][0]), requests[i][1].get("seed") or 0))
        shares = [order[rank :: len(self.servers)] for rank in range(len(self.servers))]
        calls = [
            server.generate_batch.remote([requests[i] for i in share])
            for server, share in zip(self.servers, shares, strict=True)
            if share
        ]
        parts: list[Any] = await asyncio.gather(*calls)
        answers = [answer for part in parts for answer in part]
        outputs: dict[int, TokenOutput] = {}
        for i, (tokens, log_probs, version) in zip([i for share in shares for i in share], answers, strict=True):
            versions = {"global_steps": version, "min_global_steps": version, "max_global_steps": version}
            outputs[i] = TokenOutput(
                token_ids=tokens, log_probs=log_probs, stop_reason="completed", extra_fields=versions
            )
        return [outputs[i] for i in range(len(requests))]
