"""An episode of each environment, played by its solver when the docs are written, stands on the environment's page.

Where an environment draws its states, the first and the last are pictures in `images/`.
"""

from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs import solve
from agent_envs.core.env import TurnEnv
from agent_envs.core.registry import Row
from agent_envs.core.trajectory import Turn, stretches

IMAGES = Path(__file__).parent / "images"
LONGEST = 700  # characters of a text
MOST_TURNS = 6
FENCE = "`" * 4  # longer than any that a text of ours holds


def example(row: Row) -> tuple[list[str], dict[Path, str]]:
    """Return the lines of an id's example, and its pictures: the first task of the first split, solved."""
    env: gym.Env[Any, Any] = gym.make(row.id)
    env.reset(seed=0, options={"task": 0})
    core = env.unwrapped
    assert isinstance(core, TurnEnv)
    pictures = [core._picture(core.episode)] if "svg" in core.metadata["render_modes"] else []
    for action in solve(env):
        env.step(action)
    pictures += [core._picture(core.episode)] if pictures else []
    play = core.trajectory
    lines = [
        "## Example",
        "",
        f"The solver on task `{play.header.task_id}` (split `{play.header.split}`), written by `make docs`.",
    ]
    files = {
        IMAGES / f"{row.name}-{when}.svg": picture for when, picture in zip(("start", "end"), pictures, strict=False)
    }
    if files:
        start, end = (f"![the state {path.stem.rpartition('-')[2]}](../images/{path.name})" for path in files)
        lines += ["", "| at the start | at the end |", "|---|---|", f"| {start} | {end} |"]
    shown = [message for message in play.prompt if message.author != "system"][-1:]
    lines += [part for message in shown for part in _said(message.author, message.content)]
    groups = [list(group) for group in stretches(play.turns)]
    left_out = max(len(groups) - MOST_TURNS, 0)
    for number, group in enumerate(groups):
        if left_out and number == MOST_TURNS - 1:
            lines += ["", f"_{left_out} more of them are left out here._"]
        if number < MOST_TURNS - 1 or number >= len(groups) - 1:
            lines += _played(group, core)
    return [*lines, "", f"Total reward {play.total_reward:g}, {'solved' if play.success else 'not solved'}."], files


def _played(group: list[Turn], core: TurnEnv) -> list[str]:
    """Return one turn of text with what came back, or the turns of a stretch of expanded actions as one text."""
    if len(group) == 1 and isinstance(group[0].action, str):
        (turn,) = group
        lines = _said("policy", turn.action)
        return lines + [part for message in turn.observation for part in _said(message.author, message.content)]
    names = {action.id: action.name for action in getattr(core, "expanded_actions", ())}
    text = ""
    for turn in group:
        shown = "".join(message.content for message in turn.observation)
        text += turn.action if isinstance(turn.action, str) else shown or f"[{names[turn.action]}]"
    return _said("policy, with what its actions append", text)


def _said(author: str, text: str) -> list[str]:
    text = text.strip("\n") or "(nothing)"
    more = f"\n... ({len(text) - LONGEST:,} more characters)" if len(text) > LONGEST else ""
    return ["", f"**{author}**", "", f"{FENCE}text", *(text[:LONGEST] + more).splitlines(), FENCE]
