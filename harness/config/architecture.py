"""The shape of a decoder-only transformer, and what follows from it. Facts come from the models' config.json."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A Llama- or Qwen-like decoder: grouped-query attention, gated MLP or mixture of experts."""

    layers: int
    """num_hidden_layers."""
    hidden: int
    """hidden_size."""
    intermediate: int
    """intermediate_size of a dense layer; moe_intermediate_size of one expert."""
    heads: int
    """num_attention_heads."""
    kv_heads: int
    """num_key_value_heads."""
    head_dim: int
    """head_dim."""
    vocabulary: int
    """vocab_size."""
    tied: bool = False
    """tie_word_embeddings: input and output embedding are one matrix."""
    experts: int = 0
    """num_experts; 0 is a dense model."""
    active_experts: int = 0
    """num_experts_per_tok."""

    @property
    def attention(self) -> int:
        """Weights of one layer's attention."""
        return self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)

    @property
    def layer(self) -> int:
        """Weights of one layer, all experts included; norms and biases are left out (below 0.1 %)."""
        mlp = 3 * self.hidden * self.intermediate
        router = self.hidden * self.experts
        return self.attention + (mlp * self.experts + router if self.experts else mlp)

    @property
    def embeddings(self) -> int:
        """Weights of the input and output embeddings."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        """All weights."""
        return self.layers * self.layer + self.embeddings

    @property
    def active(self) -> int:
        """Weights that one token passes through, the output embedding included, the input embedding not."""
        mlp = 3 * self.hidden * self.intermediate * (self.active_experts if self.experts else 1)
        return self.layers * (self.attention + mlp) + self.vocabulary * self.hidden

    @property
    def width(self) -> int:
        """Intermediate width that one token sees in a layer."""
        return self.intermediate * (self.active_experts if self.experts else 1)

    def cache_bytes(self, bytes_each: int = 2) -> int:
        """Bytes of the KV cache a token, at `bytes_each` bytes an entry."""
        return 2 * self.layers * self.kv_heads * self.head_dim * bytes_each
