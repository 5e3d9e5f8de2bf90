"""The Ray actor behind the CPU rollout: a queue in front of a decoder.

The module itself imports nothing heavy: whoever receives a handle of the actor, such as verl's load balancer, imports
the module of its class (Ray does so to learn its methods).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError

if TYPE_CHECKING:
    import torch
    from verl.workers.rollout.replica import TokenOutput

    from harness.trainer.cpu.decoder import Request

logger = logging.getLogger(__name__)

GATHER_SECONDS = 0.004
"""How long the server waits for more requests before it decodes a batch."""


class Server:
    """One model, fed by the trainer's weights; requests that wait at the same time are decoded as one batch."""

    def __init__(self, config: Any, model_config: Any, rank: int) -> None:
        """Args:
        config: verl's RolloutConfig.
        model_config: verl's HFModelConfig.
        rank: of the training worker whose weights it serves.
        """
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM

        from harness.trainer.cpu.decoder import Decoder

        self.config = config
        path = model_config.local_path or model_config.path
        hf_config = AutoConfig.from_pretrained(path)
        # The weights come from the trainer before the first request; only the structure is made here.
        model = AutoModelForCausalLM.from_config(hf_config, dtype=torch.float32).eval()
        self.tied = bool(getattr(hf_config, "tie_word_embeddings", False))
        generation = model_config.generation_config
        end = generation.eos_token_id if generation is not None else hf_config.eos_token_id
        ends = frozenset() if config.ignore_eos or end is None else frozenset([end] if isinstance(end, int) else end)
        pad = model_config.tokenizer.pad_token_id or 0
        self.decoder = Decoder(model, ends, pad, max_batch=int(config.max_num_seqs))
        self.global_steps: int | None = None
        self.unseeded = int(config.seed) + (rank << 32)  # for callers that give no seed, such as the stock agent loop
        self.queue: list[tuple[Request, asyncio.Future[TokenOutput]]] = []
        self.waiting = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        self.worker: asyncio.Task[None] | None = None

    async def generate(
        self, request_id: str, prompt_ids: Any, sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        """One response, in verl's protocol (verl/workers/rollout/llm_server.py); images and the like are ignored."""
        request = self._request(prompt_ids, sampling_params)
        if self.worker is None:
            self.worker = asyncio.create_task(self._serve())
        answer: asyncio.Future[TokenOutput] = asyncio.get_running_loop().create_future()
        self.queue.append((request, answer))
        self.waiting.set()
        return await answer

    async def generate_batch(
        self, requests: list[tuple[list[int], dict[str, Any]]]
    ) -> list[tuple[list[int], list[float], int | None]]:
        """Responses to (prompt ids, sampling parameters) pairs: token ids, log-probabilities, version of the weights.

        All of them are decoded together, so that a batch is a function of the call.
        """
        await self.open.wait()
        decoded = await asyncio.to_thread(self.decoder.complete, [self._request(*request) for request in requests])
        return [(answer.tokens, answer.log_probs, self.global_steps) for answer in decoded]

    def _request(self, prompt_ids: Any, parameters: dict[str, Any]) -> Request:
        from verl.utils import normalize_token_ids

        from harness.trainer.cpu.decoder import Request

        prompt = normalize_token_ids(prompt_ids)
        room = self.config.prompt_length + self.config.response_length - len(prompt)
        self.unseeded += 1
        return Request.read(prompt, parameters, min(self.config.response_length, room), self.unseeded)

    async def _serve(self) -> None:
        from verl.workers.rollout.replica import TokenOutput

        while True:
            await self.waiting.wait()
            await self.open.wait()
            await asyncio.sleep(GATHER_SECONDS)
            batch, self.queue = self.queue, []
            self.waiting.clear()
            if not batch:
                continue
            try:
                decoded = await asyncio.to_thread(self.decoder.complete, [request for request, _ in batch])
            except Exception as error:  # whatever it is belongs to the callers: they wait for an answer
                logger.exception("decoding %d requests failed", len(batch))
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for (_, answer), completion in zip(batch, decoded, strict=True):
                if not answer.done():
                    answer.set_result(
                        TokenOutput(
                            token_ids=completion.tokens,
                            log_probs=completion.log_probs,
                            stop_reason="completed",
                            extra_fields={"global_steps": self.global_steps},
                        )
                    )

    async def update_weights(self, state: dict[str, torch.Tensor], global_steps: int | None = None) -> None:
        """Takes over all weights of the trainer.

        Raises: HarnessError where the names are not those of the model.
        """
        missing, unexpected = self.decoder.model.load_state_dict(state, strict=False)
        wrong = [name for name in missing if not (self.tied and name == "lm_head.weight")] + list(unexpected)
        if wrong:
            raise HarnessError(
                f"weights of the trainer and of the rollout server differ in {len(wrong)} names, first {wrong[0]!r}: "
                "actor_rollout_ref.model.path must be one model for both, without adapters"
            )
        if global_steps is not None:
            self.global_steps = global_steps

    async def abort_all_requests(self, reject_request: bool = False) -> None:
        """Holds requests back; those being decoded finish."""
        self.open.clear()

    async def resume_generation(self) -> None:
        """Lets held requests go."""
        self.open.set()

    async def _nothing(self, *_: Any, **__: Any) -> None:
        return None

    wake_up = sleep = clear_kv_cache = release_kv_cache = resume_kv_cache = _nothing
    start_profile = stop_profile = _nothing
