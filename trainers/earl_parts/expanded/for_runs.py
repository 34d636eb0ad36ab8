"""Runs reach expanded actions by these functions alone, which `trainers.expanded_actions.expanded_parts` gives them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs.core.trajectory import Trajectory
from trainers.contracts import Sampling
from trainers.earl_parts.expa_head import Start, attach_head, language_model, load_head
from trainers.earl_parts.expanded.demonstrations import expanded_demonstrations
from trainers.earl_parts.expanded.flaws import expanded_flaws_of
from trainers.earl_parts.expanded.player import ExpandedPlayer
from trainers.earl_parts.expanded.sequences import vocabulary_rows
from trainers.tokens import ChatTokenizer
from trainers.training.heads import head_is_in


def give_head(model: Any, chat: ChatTokenizer, env: gym.Env[Any, Any], folder: str, start: Start) -> None:
    """Give a model the output rows of an environment's expanded actions: a folder's, or new ones."""
    if head_is_in(Path(folder)):
        load_head(model, Path(folder))
        return
    width = language_model(model).get_output_embeddings().weight.shape[0]
    attach_head(model, vocabulary_rows(env, chat, width), start)


def player(model: Any, chat: ChatTokenizer, sampling: Sampling, **limits: Any) -> ExpandedPlayer:
    """Return the player of episodes with expanded actions."""
    return ExpandedPlayer(model, chat, sampling, **limits)


def demonstrations(env: gym.Env[Any, Any], count: int, flaws: str, **tasks: Any) -> Iterator[Trajectory]:
    """Yield episodes of the solver of an environment with expanded actions, led astray as a setting says."""
    return expanded_demonstrations(env, count, expanded_flaws_of(flaws), **tasks)


def check_flaws(text: str) -> None:
    """Refuse, with a UsageError, what names no flaws of expanded actions."""
    expanded_flaws_of(text)
