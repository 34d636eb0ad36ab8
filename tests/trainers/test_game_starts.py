"""Warm starts of games: detours, solvers without a plan left, turns without a label, and what is said after them."""

import random

import gymnasium as gym

from agent_envs.envs.text_games.scoring import facts_of
from agent_envs.evaluation.runs.measures import valid_turn
from agent_envs.wrappers import Memory
from tests.needs import require
from trainers.imitation.demonstrations import Flaws, demonstrations, with_another_action, without_tags
from trainers.tiny.fitting import environment_tokenizer

require("[babyai]")
NAMES = ["turn left", "turn right", "go forward", "pick up", "drop", "toggle"]


def babyai(**arguments):
    return gym.make("agent_envs:agent_envs/BabyAI-v0", kind="goto", **{"max_turns": 8, **arguments})


def test_a_detour_is_a_valid_turn_with_another_action_that_its_thought_names():
    text = "THINK: I still have to pick up the red ball. Next I pick up.\nACTION: pick up"
    seen = {with_another_action(text, NAMES, random.Random(seed)) for seed in range(40)}
    others = [name for name in NAMES if name != "pick up"]
    assert seen == {f"THINK: I still have to pick up the red ball. Next I {name}.\nACTION: {name}" for name in others}
    assert with_another_action("<search>x</search>", NAMES, random.Random(0)) == ""


def test_where_the_solver_has_no_plan_left_the_sampler_goes_on():
    assert len(list(demonstrations(babyai(), 12, Flaws(repeated=0.9)))) == 12
    played = list(demonstrations(babyai(), 12, Flaws(detour=0.9)))
    assert len(played) == 12 and all(episode.last.terminated or episode.last.truncated for episode in played)
    turns = [turn for episode in played for turn in episode.turns]
    assert all(map(valid_turn, turns)) and any("THINK" not in str(turn.action) for turn in turns)
    assert len({facts_of(turn).action for turn in turns}) == len(NAMES)


def test_a_malformed_turn_of_a_game_lacks_its_label():
    assert without_tags("THINK: so.\nACTION: drop") == "THINK: so.\ndrop"
    turns = [turn for episode in demonstrations(babyai(), 20, Flaws(malformed=0.3)) for turn in episode.turns]
    share = sum(not valid_turn(turn) for turn in turns) / len(turns)
    assert 0.2 < share < 0.45


def test_what_a_game_says_after_an_invalid_turn_is_made_of_words():
    tokenizer = environment_tokenizer("BabyAI", kind="goto", max_turns=16, plays=24).tokenizer
    env = Memory(babyai(), turns=1)
    for said in ("go forward", "ACTION:", "THINK: I go"):
        env.reset(seed=0)
        observation = env.step(said)[0]
        note = observation.splitlines()[0]
        assert "Your turn held no action" in note and not [
            piece for piece in tokenizer.tokenize(note) if piece.startswith("<0x")
        ]
