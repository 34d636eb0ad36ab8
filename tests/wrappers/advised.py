"""The toy with scripted feedback, and models that remember what they were asked."""

import gymnasium as gym

from agent_envs import register_companions
from agent_envs.services.chat import ChatReply
from tests.toy import Guess

ID = "toy/Advised-v0"
COMPARE = "<compare>50</compare>"


class Advised(Guess):
    """Guess a number, with feedback from a script."""


def give_feedback(messages, mode, quality, rng):
    """Say what is known of the call: how much of the conversation there is, and one draw."""
    return f"{mode} {quality}: {len(messages)} messages, draw {rng.randrange(10**6)}."


register_companions(Advised, feedback=give_feedback)
gym.register(id=ID, entry_point="tests.wrappers.advised:Advised")


class Spy:
    """A chat model that keeps what it was asked; it is its own deep copy, as gymnasium demands."""

    def __init__(self, say=lambda request, number: f"Advice {number}.", name="spy"):
        self.name, self.asked = name, []
        self._say = say

    def __deepcopy__(self, memo):
        return self

    def complete(self, request, seconds=60.0):
        self.asked.append(request)
        said = self._say(request, len(self.asked))
        return (
            said if isinstance(said, ChatReply) else ChatReply(said, usage={"input": 1000, "output": 100, "calls": 1})
        )
