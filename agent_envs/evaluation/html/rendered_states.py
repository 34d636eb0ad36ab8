"""Pictures of an episode's states are drawn while it is stepped again, and are bounded where they stand on a page.

A picture is the text of an SVG that its environment made. It is shown as an image from a data URL: nothing in it runs or
reaches outside, whatever it says.
"""

import base64
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
from markupsafe import Markup

from agent_envs.base.errors import EnvFault
from agent_envs.core.env import TurnWrapper

MOST_PICTURES = 400  # of an episode
MOST_BYTES = 1_250_000  # of an episode's pictures on a page
LARGEST = 100_000  # characters of a picture
AROUND = 250  # bytes of HTML around a picture, or of the note that some are left out


class Painter(TurnWrapper):
    """Draw the state after the reset and after each turn, in `pictures`; "" where none is needed or fits."""

    def __init__(self, env: gym.Env[Any, Any], turns: int) -> None:
        """Draw the first and the last states of an episode of so many turns, at most `MOST_PICTURES`."""
        super().__init__(env)
        self.pictures: list[str] = []
        self._left_out = range(MOST_PICTURES // 2, turns + 1 - MOST_PICTURES // 2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset, drop the pictures and draw the first state."""
        start = self.env.reset(seed=seed, options=options)
        self.pictures = []
        self._draw()
        return start

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a turn, and draw the state after it."""
        transition = self.env.step(action)
        self._draw()
        return transition

    def _draw(self) -> None:
        """Append the picture of the current state, or "" if it is left out or too large; EnvFault where drawing fails."""
        core, picture, turn = self.turn_env(), "", len(self.pictures)
        if turn not in self._left_out:
            try:
                picture = core._picture(core.episode)
            except Exception as error:
                why = f"the picture of turn {turn} cannot be drawn ({type(error).__name__})"
                raise EnvFault(why, retryable=False) from error
        self.pictures.append(picture if len(picture) <= LARGEST else "")


def draws(env: gym.Env[Any, Any]) -> bool:
    """Return whether an environment has pictures."""
    return "svg" in env.unwrapped.metadata.get("render_modes", ())


def data_url(svg: str) -> Markup:
    """Return a data URL of an SVG."""
    return Markup("data:image/svg+xml;base64,") + base64.b64encode(svg.encode("utf-8", "replace")).decode("ascii")


def fit_pictures(pictures: Sequence[str], turns: Sequence[int], room: int) -> tuple[dict[int, Markup], int]:
    """Return {turn: URL} of pictures that fit into `room` bytes, from both ends, and the number of turns without one."""
    room = min(room, MOST_BYTES)
    urls: dict[int, Markup] = {}
    candidates = [turn for turn in turns if turn < len(pictures)]
    for turn in (
        candidates[place // 2] if place % 2 == 0 else candidates[-1 - place // 2] for place in range(len(candidates))
    ):
        if pictures[turn]:
            url = data_url(pictures[turn])
            room -= len(url) + AROUND
            if room < 0:
                break
            urls[turn] = url
    return urls, len(turns) - len(urls) if any(pictures) else 0
