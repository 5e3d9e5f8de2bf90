"""verl's own validation of every model with every recipe and baseline; prints one JSON line a combination that fails.

Run as `python -m tests.support.validate_configs`. Beside `validate_config` of verl's entry point: every typed config
that can be built without a model, and that the names of estimator, loss and reward manager are registered.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json


def main() -> None:
    from omegaconf import OmegaConf
    from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
    from verl.trainer import main_ppo
    from verl.trainer.ppo import core_algos
    from verl.utils.config import omega_conf_to_dataclass

    from harness.config import reference
    from harness.config.compose import compose, groups

    count = 0
    passed: dict[tuple[str, str], object] = {}
    for model, recipe, baseline in itertools.product(*(groups()[name] for name in ("model", "recipe", "baseline"))):
        count += 1
        real = [] if model in ("tiny", "small") else ["data=dapo_math_17k", "evaluation=paper"]
        try:
            made = compose([f"model={model}", f"recipe={recipe}", f"baseline={baseline}", *real])
            algorithm = made.asked["algorithm"]
            core_algos.get_adv_estimator_fn(algorithm["adv_estimator"])
            check(
                not main_ppo.need_critic(OmegaConf.create({"algorithm": algorithm, "critic": {"enable": None}})),
                "critic",
            )
            rest = without_baseline(made.asked)
            if passed.get((model, recipe)) == rest:
                continue  # validated with another baseline: nothing else differs
            config = OmegaConf.create(reference.merged(made.asked))
            with contextlib.redirect_stdout(io.StringIO()):
                main_ppo.validate_config(
                    config=config,
                    use_reference_policy=main_ppo.need_reference_policy(config),
                    use_critic=main_ppo.need_critic(config),
                )
            node = config.actor_rollout_ref
            actor = omega_conf_to_dataclass(node.actor)
            for part in (node.rollout, node.rollout.agent, node.rollout.val_kwargs, node.rollout.checkpoint_engine):
                omega_conf_to_dataclass(part)
            core_algos.get_policy_loss_fn(actor.policy_loss.loss_mode)
            get_reward_manager_cls(config.reward.reward_manager.name)
            check(main_ppo.need_reference_policy(config) == (recipe == "kl_loss"), "reference policy")
            check(actor.clip_ratio_high == made.settings.recipe.clip_high, "clip_ratio_high does not arrive")
            check(actor.optim.lr == made.settings.recipe.learning_rate, "learning rate does not arrive")
            gpus = config.trainer.nnodes * config.trainer.n_gpus_per_node
            parallel = gpus // actor.ulysses_sequence_parallel_size
            check(made.settings.recipe.mini_batch * node.rollout.n % parallel == 0, "mini-batch over GPUs")
            check(gpus % node.rollout.tensor_model_parallel_size == 0, "replicas over GPUs")
            passed[model, recipe] = rest
        except Exception as error:  # the caller wants to know every combination that fails, and why
            print(
                "FAILED " + json.dumps([model, recipe, baseline, f"{type(error).__name__}: {error}"[:400]]), flush=True
            )
    print(f"CHECKED {count}")


def without_baseline(asked: dict) -> dict:
    """What a run asks of verl, without what a baseline sets: the estimator, its settings and the label."""
    own = ("adv_estimator", "norm_adv_by_std_in_grpo", "qae")
    return {
        **asked,
        "algorithm": {key: value for key, value in asked["algorithm"].items() if key not in own},
        "trainer": {key: value for key, value in asked["trainer"].items() if key != "experiment_name"},
        "harness": {key: value for key, value in asked["harness"].items() if key != "reference_K"},
    }


def check(ok: bool, what: str) -> None:
    if not ok:
        raise ValueError(what)


if __name__ == "__main__":
    main()
