"""ExpA holds calculator and sorting tasks with an expanded action space, and the same tasks as plain text (arXiv 2510.07581).

Modules, in reading order:
    problem: a problem: tasks, prompt, external environments, reward and success, shared by both kinds of environments.
    actions: external environments, expanded actions, and their token ids (`expanded_vocabulary`).
    expanded_env, text_env: the two TurnEnvs, with expanded actions and action mask, or with tool calls as tags in text.
    calculator/: arithmetic, Countdown, counting, word problems, Calc-Bench; the calculator itself and its rewards.
    sorting/: sorting and ordering with compare and swap, reference algorithms, rewards for few comparisons.
    generated: what generated tasks share: their data, the steps of a solver, the sizes of splits.
    discrete: `DiscreteActions`, a wrapper for classic reinforcement learning: Discrete actions, numeric observation, mask.
    solver, heuristic: oracle policy and random policy, and a baseline without a model.
    feedback: scripted feedback, with its texts in feedback.json.
    labels: labels of tasks and metrics of episodes for reports.
    prompt.md: the prompts of all ids.
"""

from agent_envs.core.registry import register_companions
from agent_envs.envs.expa.actions import (
    ExpandedAction,
    ExternalEnvironment,
    Latent,
    Refusal,
    VocabularyRow,
    expanded_vocabulary,
)
from agent_envs.envs.expa.discrete import DiscreteActions
from agent_envs.envs.expa.expanded_env import ExpandedActionEnv

__all__ = [
    "DiscreteActions", "ExpandedAction", "ExpandedActionEnv", "ExternalEnvironment", "Latent", "Refusal", "VocabularyRow",
    "expanded_vocabulary",
]  # fmt: skip

for _class, _heuristic in (("text_env:TagEnv", "text_action"), ("expanded_env:ExpandedActionEnv", "expanded_action")):
    register_companions(
        f"agent_envs.envs.expa.{_class}",
        solver="agent_envs.envs.expa.solver:next_action",
        sampler="agent_envs.envs.expa.solver:random_action",
        heuristic=f"agent_envs.envs.expa.heuristic:{_heuristic}",
        labels="agent_envs.envs.expa.labels:labels_of",
        metrics="agent_envs.envs.expa.labels:metrics_of",
        feedback="agent_envs.envs.expa.feedback:give_feedback",
    )
