"""Gold conversations: the expected actions of a task as somebody who carries them out would make them."""

import json
from math import prod

from agent_envs.base.messages import ToolCall
from agent_envs.envs.tau2.dialogue import Line, ToolReply
from agent_envs.envs.tau2.evaluation import Evaluation
from agent_envs.envs.tau2.task_schema import Tau2Task
from agent_envs.envs.tau2.task_states import initial_world
from agent_envs.envs.tau2.toolkit import Domain, DomainState, Side, call


class Conversation:
    """A conversation on a live world that grows call by call."""

    def __init__(self, domain: Domain, task: Tau2Task, solo: bool = False) -> None:
        self.domain, self.task, self.solo = domain, task, solo
        self.world: DomainState = initial_world(domain, task)
        self.lines: tuple[Line, ...] = task.history

    def call(self, side: Side, name: str, arguments: str = "{}") -> str:
        """Call a tool and return what it answered."""
        outcome, self.world = call(self.domain, self.world, side, name, json.loads(arguments), self.solo)
        asked = ToolCall(f"call_{len(self.lines)}", name, arguments)
        reply = ToolReply(asked.id, name, outcome.content, outcome.error, side)
        self.lines += (Line(side, calls=(asked,)), Line("environment", results=(reply,)))
        return outcome.content

    def say(self, text: str, side: Side = "assistant") -> None:
        self.lines += (Line(side, text),)


def gold_conversation(domain: Domain, task: Tau2Task, solo: bool = False) -> Conversation:
    """All expected actions in order, then a text that says what was to be communicated."""
    talk = Conversation(domain, task, solo)
    for action in task.criteria.actions or ():
        talk.call("assistant" if solo else action.requestor, action.name, action.arguments)
    talk.say("Done. " + " ".join(task.criteria.communicate_info))
    return talk


def breakdown(score: Evaluation) -> dict[str, float | None]:
    """Return the components of a score that count."""
    return {name: score.components[name] for name in score.basis}


def env_reward(score: Evaluation) -> float:
    """Return the part of a reward that rests on the databases and on assertions."""
    return prod(part or 0.0 for name, part in breakdown(score).items() if name in ("DB", "ENV_ASSERTION"))
