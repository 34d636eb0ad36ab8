"""Games as text: BabyAI, Baba Is AI, Crafter, and an adapter for any discrete Gymnasium environment (arXiv 2411.13543)."""

from agent_envs.core.env import register_companions

for _class, _solver, _labels in (
    ("env:BabyAI", "solver", "tasks"),
    ("baba:BabaIsAI", "baba_solver", "baba"),
    ("crafter:Crafter", "crafter_solver", "crafter"),
):
    register_companions(
        f"agent_envs.envs.text_games.babyai.{_class}",
        solver=f"agent_envs.envs.text_games.babyai.{_solver}:next_action",
        sampler=f"agent_envs.envs.text_games.babyai.{_solver}:random_action",
        labels=f"agent_envs.envs.text_games.babyai.{_labels}:labels_of",
        metrics="agent_envs.envs.text_games.scoring:metrics_of",
        feedback="agent_envs.envs.text_games.feedback:give_feedback",
    )
