"""verl's single-turn agent loop with a sampling seed for every response.

Named as `actor_rollout_ref.rollout.agent.default_agent_loop`, found through `agent_loops.yaml` beside this file. The
seed travels in the sampling parameters: vLLM's SamplingParams and our CPU server both know the key.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

from harness.trainer.seeds import query_name, request_seed

NAME = "seeded_single_turn"
SEEDED_ROLLOUTS = frozenset({"vllm", "hf_cpu"})
"""Values of `rollout.name` whose sampling parameters know the key "seed"; with others verl's own loop stays."""
CONFIG = Path(__file__).with_name("agent_loops.yaml")


class SeededSingleTurn(SingleTurnAgentLoop):
    """One turn of chat whose tokens follow from the rollout seed, the step, the query and the sample."""

    async def run(self, sampling_params: dict[str, Any], **fields: Any) -> AgentLoopOutput:
        """Args:
        sampling_params: of the whole batch; copied, so that samples do not share a seed.
        fields: the prompt's columns and what verl adds: uid, index, data_source, global_steps, session_id.
        """
        seed = request_seed(
            int(self.rollout_config.seed),
            uid=str(fields["uid"]),
            step=int(fields["global_steps"]),
            query=query_name(fields.get("data_source", "unknown"), fields["index"]),
            sample=int(fields["session_id"]),
        )
        return await super().run({**sampling_params, "seed": seed}, **fields)
