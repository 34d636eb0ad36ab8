"""Players of environments with expanded actions: tiny models of random weights, with heads."""

from functools import lru_cache

import gymnasium as gym
import torch

from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy
from trainers.contracts import Sampling
from trainers.earl_parts.expa_head import attach_head
from trainers.earl_parts.expanded.player import ExpandedPlayer
from trainers.earl_parts.expanded.sequences import vocabulary_rows
from trainers.environments import environment_spec
from trainers.tiny.models import byte_tokenizer, tiny_model, word_tokenizer
from trainers.tokens import ChatTokenizer


def solved(env, task, kind="solver"):
    """Return an episode of a built-in agent."""
    return run_episode(env, CompanionPolicy(kind), seed=task, task=task, split="train").trajectory


@lru_cache(maxsize=16)
def chat_of(env_id, tokenizer="words", **arguments):
    """Return the tokens of an environment's conversations: words of its own, or bytes."""
    if tokenizer == "bytes":
        return ChatTokenizer(byte_tokenizer(), "chatml")
    env = gym.make(f"agent_envs:agent_envs/{env_id}-v0", **arguments)
    texts = []
    for task in range(12):
        episode = solved(env, task)
        texts += [message.content for message in episode.prompt]
        texts += [turn.action for turn in episode.turns if isinstance(turn.action, str)]
        texts += [message.content for turn in episode.turns for message in turn.observation]
    return ChatTokenizer(word_tokenizer(texts, digits=True), "chatml")


def model_for(env_id, tokenizer="words", *, dtype=torch.float32, seed=0, eager=0.0, ending=0.0, **arguments):
    """Return a tiny model with a head, its tokenizer and a spec.

    `eager` stretches the rows of expanded actions and `ending` that of `end`, so that more comes about by chance.
    """
    chat = chat_of(env_id, tokenizer, **arguments)
    env = gym.make(f"agent_envs:agent_envs/{env_id}-v0", **arguments)
    model = tiny_model(chat.tokenizer, "tiny", seed=seed).to(dtype)
    rows = vocabulary_rows(env, chat, model.get_output_embeddings().weight.shape[0])
    head = attach_head(model, rows)
    with torch.no_grad():
        head.weight *= 1 + eager
        model.lm_head.weight[chat.end_ids[0]] *= 1 + ending
    return model, chat, environment_spec(env_id, arguments)


def player_for(env_id, tokenizer="words", *, limits=None, **choices):
    """Return a player of random weights, its model, its tokenizer and a spec; `choices` as of `model_for`."""
    model, chat, spec = model_for(env_id, tokenizer, **choices)
    limits = {"max_new_tokens": 40, "batch": 16, "sampling": Sampling(1.0)} | (limits or {})
    sampling = limits.pop("sampling")
    return ExpandedPlayer(model, chat, sampling, **limits), model, chat, spec
