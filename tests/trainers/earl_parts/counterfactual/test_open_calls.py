"""A forced tag never lands inside an open call: there it would be a part of what the policy was writing to a tool."""

import random

import gymnasium as gym
import pytest
import torch
from gymnasium.envs.registration import EnvSpec

from agent_envs.rollout.episode_runner import Planned
from tests.trainers.players import player
from trainers.contracts import TokenSequence
from trainers.earl_parts.counterfactual.interventions import Interventions, forkable, play_again
from trainers.earl_parts.counterfactual.optimisation import CounterfactualSettings
from trainers.earl_parts.counterfactual.positions import free_places

TEXT = "1 + 2 <calculator>3 + 4</calculator> 5"
SIGNS = tuple(map(ord, TEXT))
PAPER = CounterfactualSettings("paper")


def decode(ids):
    return "".join(map(chr, ids))


def sequence_of(*turns):
    """Return a sequence of a token a character, a prompt of one before each turn."""
    ids, trained, numbers = [], [], []
    for number, text in enumerate(turns, 1):
        ids += [0, *map(ord, text)]
        trained += [False] + [True] * len(text)
        numbers += [0] + [number] * len(text)
    return TokenSequence(tuple(ids), tuple(trained), (0.0,) * len(ids), tuple(numbers))


def test_places_within_a_call_and_within_its_tags_are_left_out():
    sequence = sequence_of(TEXT)
    free = free_places(sequence, decode, ("calculator", "answer"))
    before = [decode(sequence.ids[1:place]) for place in free]
    opened, closed = TEXT.index("<calculator>"), TEXT.index("</calculator>") + len("</calculator>")
    assert before == [TEXT[:length] for length in range(len(TEXT)) if length <= opened or length >= closed]


def test_a_call_that_was_never_closed_ends_with_its_turn():
    free = free_places(sequence_of("<calculator>3", "4 <answer>5", "<b>"), decode, ("calculator", "answer"))
    assert free == (1, 15, 16, 17, 27, 29)  # behind "<" alone nobody knows yet which tag it will be


@pytest.mark.parametrize("seed", range(12))
def test_what_is_forced_stands_outside_of_every_call(seed):
    """The text's positions are weighed at random here, and a call fills most of it."""
    _, model, chat, _ = player("Countdown", {"numbers": 2, "digits": 1, "max_generations": 2})
    generator = random.Random(seed)
    words = [generator.choice(("1", " ", "<calculator>", "</calculator>", "<answer>", "</answer>")) for _ in range(9)]
    ids = chat.codec.encode("".join(words))
    sequence = TokenSequence((1, *ids), (False, *(True,) * len(ids)), (0.0,) * (len(ids) + 1), (0, *(1,) * len(ids)))
    made = Interventions(model, chat, PAPER)
    found = made.text([sequence], [f"episode {seed}"], chat.codec.encode("<calculator>"), ("calculator", "answer"))
    if not found:
        return
    ((_, lead),) = found.values()
    kept = chat.codec.decode(lead.sampled) if lead.sampled else ""
    for tag in ("calculator", "answer"):
        assert kept.rfind(f"<{tag}>") <= kept.rfind(f"</{tag}>"), kept


def test_episodes_that_are_played_again_are_given_the_tags_of_their_environment(monkeypatch):
    policy, model, chat, spec = player("Countdown", {"numbers": 2, "digits": 1, "max_generations": 2})
    plan = [Planned(f"g{task}", spec, task, "train", seed=task) for task in range(2)]
    forks, asked = forkable(policy), []
    results = forks.play(plan)
    made = Interventions(model, chat, PAPER)
    monkeypatch.setattr(made, "text", lambda rows, keys, forced, tags: asked.append(tags) or {})
    env = gym.make(EnvSpec.from_json(spec))
    with torch.no_grad():
        play_again(forks, made, {item.key: (item, results[item.key]) for item in plan}, env, "calculator")
    assert asked and {"calculator", "answer"} >= set(asked[0]) >= {"calculator"}
