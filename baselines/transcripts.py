"""`python -m baselines.transcripts` writes one short episode of each agent into docs/baselines.md, behind its mark.

The scripted reader stands in for the model, so that the page is the same everywhere; games and native tools, which it cannot
play, are played by two lines that are written here.
"""

from pathlib import Path
from typing import Any

import gymnasium as gym

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.services.chat import ChatModel, ScriptedChat
from baselines.agents import AGENTS, agent_class
from baselines.scripted_reader import ScriptedReader

PAGE = Path(__file__).resolve().parent.parent / "docs" / "baselines.md"
MARK = "<!-- written by python -m baselines.transcripts -->"
OPTIONS: dict[str, dict[str, Any]] = {"search_o1": {"searches": 3}, "self_consistency": {"of": "direct", "samples": 3}}
TASK, MOST_TURNS, MOST = 4, 3, 160  # of SearchQA's dev split, a question of two hops; turns shown; characters a text
GAME = ["THINK: I see a wall.\nACTION: turn left"] * 200
NATIVE = [
    'I look.\n<tool_call>\n{"name": "search", "arguments": {"query": "collection"}}\n</tool_call>',
    "<answer>\\boxed{1}</answer>",
]
EXAMPLES: dict[str, tuple[str, dict[str, Any], ChatModel | None]] = {
    "program_of_thought": ("Arithmetic", {"test_words": 0.0}, None),
    "self_consistency": ("Arithmetic", {"test_words": 0.0}, None),
    "games": ("BabyAI", {}, ScriptedChat(GAME)),
    "tool_agent": ("ToolReasoning", {"protocol": "json"}, ScriptedChat(NATIVE)),
    "sorting": ("Sort", {"size": 3}, None),
}


def transcripts() -> str:
    """Play dev task 4 of each baseline's example; return the first 3 turns of each as Markdown, texts cut to 160 letters."""
    parts = []
    for name in AGENTS:
        env_id, arguments, model = EXAMPLES.get(name, ("SearchQA", {}, None))
        kind = agent_class(name)
        policy = kind() if name == "sorting" else kind(model or ScriptedReader(), **OPTIONS.get(name, {}))
        env = gym.make(f"agent_envs/{env_id}-v0", **arguments)
        result = run_episode(env, policy, seed=0, split="dev", task=TASK)
        question = result.trajectory.prompt[-1].content.rpartition("Question: ")[2]
        lines = [f"### {name}", "", f"{env_id}: {_short(question)}", "", "```text"]
        for turn in result.trajectory.turns[:MOST_TURNS]:
            lines.append(f"agent: {_short(str(turn.action))}")
            lines += [f"   env: {_short(message.content)}" for message in turn.observation]
        more = len(result.trajectory.turns) - MOST_TURNS
        lines += [f"   ... {more} more turns"] if more > 0 else []
        lines += [f"solved: {'yes' if result.success else 'no'}", "```", ""]
        parts.append("\n".join(lines))
    return "\n".join(parts)


def _short(text: str) -> str:
    """Return a text as one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= MOST else f"{line[:MOST]} ..."


def main() -> None:
    """Write docs/baselines.md anew behind its mark, with the transcripts."""
    head = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    PAGE.write_text(f"{head}{MARK}\n\n{transcripts().rstrip()}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
