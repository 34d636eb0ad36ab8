"""What feedback would have cost if a paid model had given it: tokens of its calls, counted on a trained policy's episodes."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium as gym

import agent_envs
from agent_envs.chat import ChatReply, ChatRequest
from agent_envs.chat.prices import load_prices
from agent_envs.registry import full_id
from agent_envs.wrappers.feedback_costs import FeedbackCost, feedback_usage

CHARACTERS = 4  # a token, about, of English text
EPISODES = 64
PRICED = "claude-sonnet-4"
FORMULA = "episodes x calls x (input_tokens x input_usd + output_tokens x output_usd) / 1e6"
REPLY = "Check what the last result says about the open point. If it settles it, answer now in the wanted form."


class Counting:
    """Stands for a paid model: counts what it is sent, and answers in two sentences."""

    name = "counting"

    def complete(self, request: ChatRequest, seconds: float = 60.0) -> ChatReply:
        """Answer."""
        sent = sum(len(str(message["content"])) for message in request.messages)
        return ChatReply(REPLY, usage={"input": sent // CHARACTERS, "output": len(REPLY) // CHARACTERS, "calls": 1})


def price_of(folder: Path) -> dict[str, Any]:
    """Return calls and tokens an episode of a trained policy under a paid feedback model, and US dollars by a formula."""
    from agent_envs.wrappers import VerbalFeedback
    from trainers.command_line import read_settings
    from trainers.stacks import wrapped, wrapper_rows
    from trainers.trained_agent import TrainedAgent
    from trainers.veg import VEGSettings

    settings = read_settings(VEGSettings, folder)
    own = gym.make(full_id(settings.env.id), **json.loads(settings.env.arguments))
    inner = wrapped(own, wrapper_rows(settings.env.wrappers, "env.wrappers"))
    env, agent = VerbalFeedback(inner, feedback=Counting(), epsilon=settings.epsilon), TrainedAgent(str(folder))
    used = Counter[str]()
    for task in range(EPISODES):
        played = agent_envs.run_episode(env, agent, seed=0, task=task, split=settings.env.test_split)
        used.update(feedback_usage(played.usage))
    price = load_prices(None).price(PRICED)
    assert price is not None
    return {
        "calls_an_episode": round(used["calls"] / EPISODES, 2),
        "input_tokens_a_call": round(used["input"] / used["calls"]),
        "output_tokens_a_call": round(used["output"] / used["calls"]),
        "formula": FORMULA,
        "model": PRICED,
        "input_usd": price.input,
        "output_usd": price.output,
        "usd_an_episode": round(FeedbackCost(EPISODES, used, price).episode_usd, 6),
    }
