"""ReAct: thoughts and actions in lines of text, observations between them (Yao et al. 2023, arXiv 2210.03629).

The model writes `Action: search[query]`; the agent turns it into the environment's action, and earlier turns back into such
lines. Differs from the paper: no worked examples, and the actions are those of the environment, with `finish[answer]`.
"""

import re
from typing import Any

from baselines.chat_agent import ChatAgent, TurnModel
from baselines.prompts import prompt, system, user
from baselines.view import NO_LIMIT, EpisodeView

_ACTION = re.compile(r"Action:\s*(\w+)\[(.*?)\]\s*(?:\n|\Z)", re.S)
_TAG = re.compile(r"<(?!think)(\w+)>(.*?)</\1>", re.S)


class ReAct(ChatAgent):
    """An agent that reasons and acts in lines of text."""

    short = "react"

    def turn(self, view: EpisodeView, model: TurnModel) -> str:
        """Return the model's Action line as a call; an answer if it names no tool or is forced; in games, the reply itself."""
        tools = {tool["function"]["name"]: tool["function"].get("description", "") for tool in view.tools}
        verbs = list(tools or view.verbs)
        if not verbs:  # a game: its own prompt has the actions, and a form with thoughts of its own
            return model.ask(view.messages, view.stop)
        reply = model.ask(self._messages(view, tools or dict.fromkeys(verbs, "a tool of the task")), ("Observation:",))
        thought = reply.partition("Action:")[0].replace("Thought:", "").strip()
        match = _ACTION.search(reply)
        prefix = f"<think>{thought}</think>\n" if thought else ""
        if match and match[1] in verbs and not view.forced:
            return prefix + view.call(match[1], match[2].strip())
        return prefix + view.answer(match[2] if match else reply)

    def _messages(self, view: EpisodeView, tools: dict[str, str]) -> list[dict[str, Any]]:
        """Return the episode as ReAct's conversation: system, question, then thoughts, actions and observations in lines."""
        lines = "\n".join(f"{name}[text] - {' '.join(text.split())}" for name, text in tools.items())
        cite = ", and behind it [sources: ID; ID]" if "[sources:" in view.instructions else ""
        limits = {
            name: "any number of" if (most := view.limit(name)) == NO_LIMIT else most for name in ("searches", "turns")
        }
        rows = [system(prompt("react", "system", tools=lines, cite=cite, **limits))]
        rows.append(user(prompt("react", "task", question=view.question)))
        first = next((n for n, row in enumerate(view.messages) if row["role"] == "assistant"), len(view.messages))
        for row in view.messages[first:]:
            text = str(row["content"])
            if row["role"] != "assistant":
                rows.append(user(f"Observation: {text.strip()}"))
                continue
            thought = text.partition("</think>")[0].replace("<think>", "").strip() if "</think>" in text else ""
            action = _TAG.search(text)
            line = f"Action: {action[1]}[{action[2].strip()}]" if action else text.rpartition("</think>")[2].strip()
            rows.append({"role": "assistant", "content": f"Thought: {thought}\n{line}"})
        return rows
