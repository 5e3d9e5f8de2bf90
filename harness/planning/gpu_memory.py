"""How much GPU memory a run needs: an estimate from the model's shape and the run's verl settings, before it starts.

Training and generation share the GPUs in turn (verl's hybrid engine): vLLM frees its share while FSDP trains. Each
phase is therefore added up by itself. Sizes of states are exact; those of activations and of the library's own buffers
are rules of thumb, good to some 20 %. All figures are GiB of one GPU unless said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.config.architecture import Architecture
from harness.config.settings import Settings

GIB = 2**30
HALF, FULL = 2, 4
"""Bytes of a bfloat16 and a float32."""
LIBRARIES_GB = 3.0
"""CUDA context, NCCL buffers and fragmentation of PyTorch's allocator."""
VLLM_WORKSPACE_GB = 2.0
"""vLLM's activations and CUDA graphs, inside its share."""
SAFE = 0.95
"""Share of the memory that may be planned away."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a run lies on its GPUs: what the estimate needs of verl's config."""

    gpus: int
    """In all nodes together."""
    per_node: int
    shards: int
    """GPUs that share one copy of the training states (FSDP)."""
    tokens: int
    """Most tokens that one GPU has in one micro-batch."""
    longest: int
    """Prompt and response together, tokens."""
    tensor_parallel: int
    """GPUs of one vLLM replica."""
    vllm_share: float
    model_bytes: int
    """Of one training weight."""
    param_offload: bool
    optimizer_offload: bool
    reference: bool
    """A reference policy is kept for a KL term."""
    chunked_entropy: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """The memory of one GPU in either phase, and of one host."""

    training: tuple[tuple[str, float], ...]
    """(what, GiB)."""
    rollout: tuple[tuple[str, float], ...]
    """(what, GiB)."""
    host: float
    """GiB of a node's memory for offloaded states."""
    sequences: float
    """Responses of full length that the KV cache of one vLLM replica holds at once."""
    capacity: float
    """GiB of the GPU."""
    host_capacity: float
    """GiB that the run asks of a node."""

    @property
    def peak(self) -> float:
        """GiB in the fuller phase."""
        return max(sum(size for _, size in phase) for phase in (self.training, self.rollout))

    @property
    def problems(self) -> tuple[str, ...]:
        """Why it will not fit; empty where it should."""
        found = []
        for name, phase in (("training", self.training), ("generation", self.rollout)):
            total = sum(size for _, size in phase)
            if total > SAFE * self.capacity:
                found.append(f"{name} needs {total:.0f} of {self.capacity:.0f} GiB")
        if self.sequences < 1:
            found.append("the KV cache holds no response of full length")
        if self.host > self.host_capacity:
            found.append(f"offloaded states need {self.host:.0f} of {self.host_capacity:.0f} GiB of host memory a node")
        return tuple(found)


def layout(settings: Settings, verl: Mapping[str, Any]) -> Layout:
    """The layout of a run, from its full verl config (`reference.merged`)."""
    actor, rollout = verl["actor_rollout_ref"]["actor"], verl["actor_rollout_ref"]["rollout"]
    fsdp = actor["fsdp_config"]
    gpus = int(verl["trainer"]["nnodes"]) * int(verl["trainer"]["n_gpus_per_node"])
    longest = settings.data.max_prompt_length + settings.data.max_response_length
    parallel = int(actor["ulysses_sequence_parallel_size"])
    if actor["use_dynamic_bsz"]:
        tokens = max(int(actor["ppo_max_token_len_per_gpu"]), -(-longest // parallel))
    else:
        tokens = -(-longest * int(actor["ppo_micro_batch_size_per_gpu"] or 1) // parallel)
    return Layout(
        gpus=gpus, per_node=int(verl["trainer"]["n_gpus_per_node"]),
        shards=gpus if int(fsdp["fsdp_size"]) < 1 else int(fsdp["fsdp_size"]),
        tokens=tokens, longest=longest, tensor_parallel=int(rollout["tensor_model_parallel_size"]),
        vllm_share=float(rollout["gpu_memory_utilization"]),
        model_bytes=HALF if str(fsdp["model_dtype"]) in ("bf16", "bfloat16") else FULL,
        param_offload=bool(fsdp["param_offload"]), optimizer_offload=bool(fsdp["optimizer_offload"]),
        reference=bool(actor["use_kl_loss"]) or bool(verl["algorithm"]["use_kl_in_reward"]),
        chunked_entropy=bool(actor["entropy_from_logits_with_chunking"]),
    )  # fmt: skip


def estimate(settings: Settings, verl: Mapping[str, Any]) -> Estimate | None:
    """The estimate for a run; None on a CPU and for a model whose shape is not given."""
    shape = settings.model.architecture
    if shape is None or settings.platform != "cuda":
        return None
    resources = settings.model.resources
    return of(shape, layout(settings, verl), resources.gpu_memory_gb, resources.memory_gb)


def of(shape: Architecture, on: Layout, capacity: float, host_capacity: float) -> Estimate:
    """The estimate for a shape on a layout, with `capacity` GiB a GPU and `host_capacity` GiB a node."""
    weights = shape.parameters * on.model_bytes / on.shards / GIB
    adam = 2 * shape.parameters * on.model_bytes / on.shards / GIB
    training = [
        ("weights", weights),
        ("gradients", weights),
        ("optimizer", adam),
        ("gathered layers", _gathered(shape) / GIB),
        ("activations", _activations(shape, on.tokens) / GIB),
        ("logits", _logits(shape, on.tokens, on.chunked_entropy) / GIB),
        ("libraries", LIBRARIES_GB),
    ]
    resident = (0.0 if on.param_offload else weights) + (0.0 if on.optimizer_offload else adam)
    served = shape.parameters * HALF / on.tensor_parallel / GIB
    cache = on.vllm_share * capacity - served - VLLM_WORKSPACE_GB
    rollout = [
        ("vLLM weights", served),
        ("KV cache", max(0.0, cache)),
        ("vLLM workspace", VLLM_WORKSPACE_GB),
        ("training states", resident),
        ("libraries", LIBRARIES_GB),
    ]
    host = on.per_node * (on.param_offload * weights + on.optimizer_offload * adam)
    if on.reference:  # verl keeps it on the host and gathers it layer by layer (verl's CPUOffload for ref)
        host += on.per_node * weights
    return Estimate(
        tuple(training), tuple(item for item in rollout if item[1] > 0), host,
        max(0.0, cache) * GIB * on.tensor_parallel / (shape.cache_bytes() * on.longest), capacity, host_capacity,
    )  # fmt: skip


def _gathered(shape: Architecture) -> float:
    """Bytes of weights that FSDP gathers in bfloat16: two layers in flight, their gradients, and the embeddings."""
    return HALF * (3 * shape.layer + 2 * shape.embeddings)


def _activations(shape: Architecture, tokens: int) -> float:
    """Bytes with gradient checkpointing: every layer's input, and everything inside the layer that is recomputed."""
    kept = shape.layers * shape.hidden
    inside = 10 * shape.hidden + 2 * (shape.heads + shape.kv_heads) * shape.head_dim + 4 * shape.width
    return HALF * tokens * (kept + inside)


def _logits(shape: Architecture, tokens: int, chunked: bool) -> float:
    """Bytes of the logits, their gradient and one float32 copy; the entropy makes two more unless it goes by chunks."""
    each = HALF + HALF + FULL + (0 if chunked else 2 * FULL)
    return each * tokens * shape.vocabulary


def told(name: str, on: Layout, result: Estimate) -> str:
    """Three lines for people."""
    nodes = on.gpus // on.per_node
    head = f"{name} on {nodes} x {on.per_node} GPUs of {result.capacity:.0f} GiB, memory a GPU (estimate):"
    lines = [head]
    for phase, items in (("training", result.training), ("generation", result.rollout)):
        parts = ", ".join(f"{what} {size:.1f}" for what, size in items)
        lines.append(f"  {phase:<10} {sum(size for _, size in items):5.1f} GiB: {parts}")
    verdict = f"does NOT fit: {'; '.join(result.problems)}" if result.problems else "fits"
    lines.append(
        f"  {verdict}; the KV cache of a replica of {on.tensor_parallel} holds {result.sequences:.0f} responses of "
        f"{on.longest} tokens; host {result.host:.0f} GiB a node"
    )
    return "\n".join(lines)
