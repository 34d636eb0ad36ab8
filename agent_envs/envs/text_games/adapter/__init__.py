"""The adapter makes a text environment of any discrete Gymnasium environment of a third party; import its names from here.

Modules, in reading order:
    env: rules, state and tasks by seeds, `TextAdapter`, and a breadth-first solver (`look_ahead`); read it first.
    third_party: making, resetting, stepping and copying the environment; checks of what it returns, faults when it raises.
    replay_copies: live copies for snapshots and forks, and replay from the seed; Crafter uses them too.
"""

from agent_envs.envs.text_games.adapter.env import TextAdapter, look_ahead
from agent_envs.envs.text_games.adapter.third_party import sharing, won
from agent_envs.envs.text_games.game import Action, random_action

__all__ = ["Action", "TextAdapter", "look_ahead", "random_action", "sharing", "won"]
