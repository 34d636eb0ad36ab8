"""`python -m baselines.examples` writes worked episodes for prompts: the solver's, of train tasks that each file names.

The solver thinks in few words and acts through the same actions as any agent. No file holds a test or dev task.
"""

import gymnasium as gym

import agent_envs  # - registers the ids
from baselines.prompts import FOLDER

EXAMPLES = {"search_qa": "SearchQA", "legal": "LegalSearch", "tools": "ToolReasoning", "calculator": "Arithmetic"}
SPLIT, TASK, MOST = "train", 0, 700


def worked(env_id: str) -> str:
    """Play train task 0 with the solver; return its question, actions, and observations cut to 700 characters, as text."""
    env = gym.make(f"agent_envs/{env_id}-v0")
    _, info = env.reset(seed=0, options={"task": TASK, "split": SPLIT})
    question = str(info["messages"][-1]["content"]).rpartition("Question: ")[2].strip()
    lines = [f"Task: {question}"]
    for action in agent_envs.solve(env):
        observation, *_ = env.step(action)
        lines += [str(action), str(observation).strip()[:MOST]]
    return "\n\n".join(line for line in lines if line)


def main() -> None:
    """Play each example with the solver and write it over its file in the folder `examples`."""
    (FOLDER / "examples").mkdir(exist_ok=True)
    for name, env_id in EXAMPLES.items():
        head = f"Made by python -m baselines.examples: {env_id}-v0, split {SPLIT}, task {TASK}, played by the solver."
        (FOLDER / "examples" / f"{name}.md").write_text(f"{head}\n\n{worked(env_id)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
