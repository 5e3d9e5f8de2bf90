"""A tiny untrained model, a task that it solves half of the time by chance, and a frozen spec around them."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import OmegaConf

SPECIALS = ["<pad>", "<start>", "<end>", "<unk>"]
CHARACTERS = list("0123456789+= ") + [chr(code) for code in range(97, 123)]

REWARD = '''
def compute_score(data_source, solution_str, ground_truth, extra_info=None, **_):
    """Right if the first character sorts into the half of the alphabet that the ground truth names."""
    first = solution_str[:1]
    right = bool(first) and (first < "h") == (ground_truth == "low")
    return {"score": float(right), "acc": float(right), "pred": first or None}
'''


def make_assets(folder: Path) -> dict[str, str]:
    """Writes model, tokenizer, parquet files and reward function; returns their paths."""
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    vocabulary = {token: i for i, token in enumerate(SPECIALS + CHARACTERS)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="<end>",
        pad_token="<pad>",
        unk_token="<unk>",
        additional_special_tokens=["<start>"],
    )
    tokenizer.chat_template = (
        "{% for m in messages %}<start>{{ m['content'] }}<end>{% endfor %}"
        "{% if add_generation_prompt %}<start>{% endif %}"
    )
    model_path = folder / "model"
    tokenizer.save_pretrained(model_path)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(model_path)
    (folder / "reward.py").write_text(REWARD)
    return {
        "model": str(model_path),
        "reward": str(folder / "reward.py"),
        "train": _parquet(folder / "train.parquet", "sums", 20),
        "easy": _parquet(folder / "easy.parquet", "easy", 5),
        "hard": _parquet(folder / "hard.parquet", "hard", 6),
    }


def _parquet(path: Path, source: str, count: int) -> str:
    rows = [
        {
            "data_source": source,
            "prompt": [{"role": "user", "content": f"{i}+{i + 1}="}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": "low" if i % 2 else "high"},
            "extra_info": {"split": "test", "index": i},
        }
        for i in range(count)
    ]
    pd.DataFrame(rows).to_parquet(path)
    return str(path)


def reference_config() -> dict[str, Any]:
    """verl's flattened config, found without importing verl."""
    package = importlib.util.find_spec("verl")
    assert package is not None
    path = Path(str(package.submodule_search_locations[0])) / "trainer/config/_generated_ppo_trainer.yaml"
    return OmegaConf.load(path)


def verl_config(assets: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """verl's whole config for the tiny task on a CPU; `overrides` maps dotted keys to values."""
    config = reference_config()
    OmegaConf.set_struct(config, False)
    micro = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    values: dict[str, Any] = {
        "trainer.device": "cpu",
        "trainer.nnodes": 1,
        "trainer.n_gpus_per_node": 1,
        "trainer.total_training_steps": 4,
        "trainer.total_epochs": 1000000,
        "trainer.save_freq": 2,
        "trainer.test_freq": 2,
        "trainer.val_before_train": True,
        "trainer.max_actor_ckpt_to_keep": 2,
        "trainer.logger": ["console", "wandb"],
        "trainer.project_name": "qae",
        "trainer.experiment_name": "tiny",
        "actor_rollout_ref.model.path": assets["model"],
        "actor_rollout_ref.model.use_remove_padding": False,
        "actor_rollout_ref.model.enable_gradient_checkpointing": False,
        "actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
        "actor_rollout_ref.actor.strategy": "fsdp2",
        "actor_rollout_ref.actor.use_torch_compile": False,
        "actor_rollout_ref.actor.fsdp_config.strategy": "fsdp2",
        "actor_rollout_ref.actor.fsdp_config.use_torch_compile": False,
        "actor_rollout_ref.actor.fsdp_config.mixed_precision": micro,
        "actor_rollout_ref.actor.ppo_mini_batch_size": 4,
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 32,
        "actor_rollout_ref.actor.optim.lr": 1e-2,
        "actor_rollout_ref.actor.clip_ratio_high": 0.28,
        "actor_rollout_ref.rollout.name": "hf_cpu",
        "actor_rollout_ref.rollout.n": 8,
        "actor_rollout_ref.rollout.seed": 7,
        "actor_rollout_ref.rollout.dtype": "float32",
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 32,
        "actor_rollout_ref.rollout.agent.num_workers": 1,
        "actor_rollout_ref.rollout.val_kwargs": {
            **OmegaConf.to_container(config.actor_rollout_ref.rollout.val_kwargs),
            "n": 4,
            "temperature": 1.0,
            "do_sample": True,
        },
        "algorithm.adv_estimator": "grpo",
        "data.train_files": assets["train"],
        "data.val_files": [assets["easy"], assets["hard"]],
        "data.train_batch_size": 4,
        "data.max_prompt_length": 16,
        "data.max_response_length": 8,
        "data.dataloader_num_workers": 0,
        "data.seed": 7,
        "reward.num_workers": 1,
        "reward.custom_reward_function.path": assets["reward"],
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        "ray_kwargs.ray_init.num_cpus": 16,
        "ray_kwargs.ray_init.num_gpus": 1,
        "harness": {"reference_K": 0.4, "words": ["a", "be"], "token_steps": [2], "scorer": "halves/1"},
        **(overrides or {}),
    }
    for key, value in values.items():
        OmegaConf.update(config, key, value)
    return OmegaConf.to_container(config, resolve=True)


def write_spec(
    run_dir: Path, assets: Mapping[str, str], overrides: Mapping[str, Any] | None = None, **config: Any
) -> dict[str, Any]:
    """Freezes a spec into `run_dir`, whose name is the run's id."""
    spec = {
        "schema": 1,
        "id": run_dir.name,
        "label": "mean, tiny",
        "signature": {},
        "config": {
            "seed": 7,
            "model": {"name": "tiny", "builtin": "tiny"},
            "baseline": {"name": "mean", "K": None},
            "tracking": {"name": "offline", "project": "qae"},
            **config,
        },
        "verl": verl_config(assets, overrides),
    }
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / "spec.json").write_text(json.dumps(spec, indent=1))
    return spec
