"""Demonstrations with expanded actions: what goes wrong does so at the rates that were asked for, and what is left is good."""

import os
import random
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import permutations
from math import factorial

import gymnasium as gym
import pytest

from agent_envs import UsageError, replay
from agent_envs.base.protocol import Malformed
from agent_envs.base.serialization import digest
from agent_envs.core.env import core_of
from agent_envs.envs.expa.calculator.countdown import check
from agent_envs.envs.expa.sorting.algorithms import ALGORITHMS
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy
from benchmarks.sorting_plays import exact, run
from tests.examples import part
from tests.trainers.forked import returned
from trainers.command_line import load_preset
from trainers.earl import EARLSettings
from trainers.earl_parts.expanded.demonstrations import (
    ExpandedFlaws,
    expanded_flaws_of,
    fixed_order,
    flawed_player,
    neighbour_swaps,
)
from trainers.episode_agents import spread_episode
from trainers.figures.decision_tree import permutation_tasks
from trainers.imitation.demonstrations import guess

IDS = ("SortExpA", "OrderExpA", "ArithmeticExpA", "CountdownExpA", "CountExpA", "CalcBenchExpA", "GSM8KScaledExpA")
FLAWED = ExpandedFlaws(early=0.03, repeated=0.1, sampled=0.1, silent=0.05)


def made(name="SortExpA", **arguments):
    return gym.make(f"agent_envs:agent_envs/{name}-v0", **arguments)


def expanded_demonstrations(env, count, flaws, seed=0, first=0):
    player = flawed_player(flaws, seed)
    return (spread_episode(env, player, "train", number) for number in range(first, first + count))


def shown(count, name="SortExpA", seed=0, arguments=None, **flaws):
    return list(expanded_demonstrations(made(name, **(arguments or {})), count, ExpandedFlaws(**flaws), seed=seed))


def calls(trajectory):
    return [(result.name, result.ids) for turn in trajectory.turns for result in turn.results]


def about(count, total, chance, width=4):
    """Whether a count lies within `width` standard deviations of what a chance makes of a total."""
    return abs(count - total * chance) <= width * (total * chance * (1 - chance)) ** 0.5


@pytest.mark.parametrize("name", IDS)
def test_without_flaws_the_solver_solves(name):
    played = shown(24, name)
    assert all(item.success for item in played)
    assert len({item.header.task_id for item in played}) == 24


@pytest.mark.parametrize("name", IDS)
def test_every_action_is_legal_and_the_record_replays(name):
    env = made(name)
    played = list(expanded_demonstrations(env, 60, FLAWED))
    assert not any(isinstance(turn.parsed, Malformed) for item in played for turn in item.turns)
    assert all(item.last.terminated for item in played)
    assert all(type(turn.action) in (int, str) for item in played for turn in item.turns)
    for item in played[:10]:
        assert replay(env, item).turns == item.turns


@pytest.mark.parametrize(
    "flaws", [FLAWED, ExpandedFlaws(sampled=0.2, strategy="fixed_order"), ExpandedFlaws(sampled=1.0)]
)
def test_calls_are_legal_in_short_episodes_too(flaws):
    for limit in (1, 2, 5, 9):
        for item in expanded_demonstrations(made(max_actions=limit), 20, flaws):
            assert not any(isinstance(turn.parsed, Malformed) for turn in item.turns)


@pytest.mark.parametrize("name", ["SortExpA", "CalcBenchExpA"])
def test_the_same_seed_gives_the_same_demonstrations(name):
    one, two, other = (list(expanded_demonstrations(made(name), 30, FLAWED, seed=seed)) for seed in (3, 3, 4))
    assert one == two
    assert [item.turns for item in one] != [item.turns for item in other]
    assert [item.header.task_id for item in one] == [item.header.task_id for item in other]
    later = list(expanded_demonstrations(made(name), 10, FLAWED, seed=3, first=20))
    assert later == one[20:]


MIXED = ExpandedFlaws(0.02, 0.1, 0.1, 0.05, "mixture", algorithms=(("merge", 1.0), ("bubble", 2.0), ("network-4", 1.0)))


def digests():
    """Return the digests of some demonstrations behind the hash of a text, which is another in another process."""
    flawed = {"SortExpA": MIXED, "CountdownExpA": ExpandedFlaws(sampled=0.1, silent=0.5)}
    played = {name: list(expanded_demonstrations(made(name), 12, flaws)) for name, flaws in flawed.items()}
    return [hash("a"), *(digest([[turn.action for turn in item.turns] for item in items]) for items in played.values())]


def test_the_order_of_hashes_does_not_matter():
    (one, *here), (other, *there) = digests(), returned(digests)
    assert here == there and (one != other or "PYTHONHASHSEED" in os.environ)


def test_early_ends_come_as_often_as_asked():
    played = shown(200, early=0.3, arguments={"size": 3})
    assert about(sum(not calls(item) for item in played), 200, 0.3)
    assert about(sum(len(calls(item)) == 1 for item in played), 200, 0.7 * 0.3)


def test_repeated_calls_come_as_often_as_asked():
    played = shown(200, repeated=0.25, arguments={"size": 3})
    firsts = [calls(item) for item in played]
    assert about(sum(one[0] == one[1] for one in firsts), 200, 0.25)
    assert all(item.success for item in played)
    computed = [calls(item) for item in shown(100, "ArithmeticExpA", repeated=0.25)]
    assert about(sum(len(set(each)) < len(each) for each in computed), 100, 0.44, width=5)


def test_sampled_calls_come_as_often_as_asked():
    played = shown(300, sampled=0.4, arguments={"size": 3})
    strange = sum(calls(item)[0] != ("compare", ("A", "B")) for item in played)
    assert about(strange, 300, 0.4 * (1 - 1 / 2 / 9))
    swapped = sum(calls(item)[0][0] == "swap" for item in played)
    assert about(swapped, 300, 0.4 / 2)
    assert all(item.success for item in played)


def test_a_start_of_random_calls_holds_no_sorting(monkeypatch):
    """`tiny-sort2-zero` learns to sort from nothing: its warm start asks no solver and sorts as blind play does."""
    preset = load_preset(EARLSettings, "earl", "tiny-sort2-zero")
    flaws = expanded_flaws_of(preset.warm_start.flaws)
    monkeypatch.setattr(CompanionPolicy, "act", lambda *_: pytest.fail("the solver was asked"))
    for size in (2, 3):
        played = list(expanded_demonstrations(made(size=size, directions="ascending", max_actions=32), 600, flaws))
        assert about(sum(item.success for item in played), 600, 1 / factorial(size))
        heeded = [item for item in played if calls(item)[:1] and calls(item)[0][0] == "compare"]
        assert len(heeded) > 100
        signs = Counter((item.turns[2].results[0].content.split()[1], len(calls(item)) > 1) for item in heeded)
        for sign in "<>":
            assert about(signs[sign, True], signs[sign, True] + signs[sign, False], flaws.sampled), (
                "what follows is chance"
            )


def test_sampled_calculations_are_followed_to_their_end_and_are_not_all_alike():
    played = shown(60, "CountExpA", sampled=0.5)
    found = [ids[0] for item in played for _, ids in calls(item)]
    assert len(set(found)) > 0.7 * len(found) > 20
    assert max(map(len, found)) <= 2 * 9 + 2
    assert all(item.success for item in played)


def test_silent_episodes_come_as_often_as_asked():
    played = shown(400, silent=0.35, arguments={"size": 3})
    silent = [item for item in played if not calls(item)]
    assert about(len(silent), 400, 0.35)
    assert {tuple(turn.action for turn in item.turns) for item in silent} == {(0,)}
    assert 0 < sum(item.success for item in silent) < len(silent) / 3


@pytest.mark.parametrize("name", ["ArithmeticExpA", "CountdownExpA", "CountExpA", "GSM8KScaledExpA"])
def test_a_silent_player_writes_a_guess_and_ends(name):
    played = shown(40, name, silent=1.0)
    for item in played:
        text, end = (turn.action for turn in item.turns)
        assert text.startswith("\n####")
        assert end == 0
        assert not calls(item)
    assert len({item.turns[0].action for item in played}) > 3


def test_guesses_at_countdown_use_every_number_once():
    source, rng, reached = core_of(made("CountdownExpA", numbers=2, digits=1)).source, random.Random("guess"), 0
    for index in range(300):
        data = source.get("train", index).data
        reason = check(guess(data, rng).partition("####")[2], data.given, data.target)
        reached += not reason
        assert not reason or reason.startswith("the value is") or "division by zero" in reason
    assert reached > 300 / 8 / 2


def test_guesses_at_a_comparison_are_of_both_kinds():
    source, rng = core_of(made("OrderExpA", compare_percent=100)).source, random.Random("guess")
    signs = Counter(guess(source.get("train", index).data, rng) for index in range(20))
    assert sorted(signs) == ["<answer>A < B</answer>", "<answer>A > B</answer>"]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_fixed_order_costs_what_enumeration_says(size, descending):
    pairs, neighbours = size * (size - 1) / 2, size * (size - 1) / 4
    star = exact("earl-star", size)
    for skip, fewest in ((0.0, 0.0), (1.0, 1.0)):
        moves = partial(fixed_order, rng=random.Random(0), skip=skip, fewest_swaps=fewest)
        rows = [run(moves, values, descending) for values in permutations(range(size))]
        assert all(row.sorted for row in rows)
        wanted = (star.mean_compares, star.mean_swaps) if skip else (pairs, neighbours)
        assert sum(row.compares for row in rows) / len(rows) == pytest.approx(float(wanted[0]))
        assert sum(row.swaps for row in rows) / len(rows) == pytest.approx(float(wanted[1]))


@pytest.mark.parametrize("direction", ["ascending", "descending"])
def test_strategies_play_their_algorithm_to_the_call(direction):
    rows = [(name, {"strategy": "mixture", "algorithms": ((name, 1),)}) for name in ("insertion", "merge", "network-4")]
    rows.append(("earl-star", {"strategy": "fixed_order", "skip": 1.0, "fewest_swaps": 1.0}))
    for name, strategy in rows:
        for item in shown(20, arguments={"size": 4, "directions": direction}, **strategy):
            wanted = run(ALGORITHMS[name], item.task.hidden, direction == "descending")
            made_ = Counter(name for name, _ in calls(item))
            assert (made_["compare"], made_["swap"], item.success) == (wanted.compares, wanted.swaps, True)


def test_fixed_order_mixes_the_two_at_the_rates_given():
    env, counts, skip, fewest = made(size=4), Counter(), 0.4, 0.7
    tasks = permutation_tasks(core_of(env).source, 4, False)
    player = flawed_player(ExpandedFlaws(strategy="fixed_order", skip=skip, fewest_swaps=fewest))
    rounds = 30
    for seed in range(rounds):
        for task in tasks:
            played = run_episode(env, player, seed=seed, task=task)
            assert played.success
            counts.update(name for name, _ in calls(played.trajectory))
    total = rounds * 24
    assert counts["compare"] / total == pytest.approx(6 - skip * (6 - 29 / 6), abs=0.1)
    assert counts["swap"] / total == pytest.approx(fewest * 23 / 12 + (1 - fewest) * 3, abs=0.12)


def test_fixed_order_compares_in_its_order():
    for item in shown(40, strategy="fixed_order", arguments={"size": 4}):
        compared = [ids for name, ids in calls(item) if name == "compare"]
        assert compared == sorted(set(compared))
        assert [name for name, _ in calls(item)] == sorted(name for name, _ in calls(item))


def test_swaps_of_neighbours():
    for target in permutations(range(4)):
        order = [0, 1, 2, 3]
        for one, other in neighbour_swaps(target):
            here = order.index(one)
            assert order[here + 1] == other
            order[here : here + 2] = other, one
        assert tuple(order) == target


@pytest.mark.parametrize("size", part([2, 3, 4, 5], [2, 5]))
@pytest.mark.parametrize("direction", ["ascending", "descending"])
def test_strategies_sort_whatever_comes_between(size, direction):
    arguments = {"size": size, "directions": direction}
    for strategy in ({"strategy": "fixed_order"},
                     {"strategy": "mixture", "algorithms": (("insertion", 1.0), ("merge", 1), ("bubble", 0.5))}):  # fmt: skip
        assert all(item.success for item in shown(12, arguments=arguments, **strategy))
        disturbed = shown(16, arguments=arguments, repeated=0.1, sampled=0.1, **strategy)
        assert all(item.success for item in disturbed)


def test_a_mixture_draws_its_algorithms_by_weight():
    weights = (("bubble", 3.0), ("optimal", 1.0))  # at once from the first call: bubble compares B with A
    played = shown(500, strategy="mixture", algorithms=weights, arguments={"size": 4})
    assert about(sum(calls(item)[0][1] == ("B", "A") for item in played), 500, 0.75)
    alone = shown(30, strategy="mixture", algorithms=(("network-4", 9), ("selection", 1)), arguments={"size": 5})
    assert all(sum(name == "compare" for name, _ in calls(item)) == 10 for item in alone)


def test_chance_does_not_look_at_the_hidden_numbers():
    env = made(size=3)
    flaws = ExpandedFlaws(early=0.2, repeated=0.2, sampled=0.2, silent=0.1)
    task, firsts = core_of(env).source.get("train", 0), set()
    for values in permutations(range(3)):
        other = replace(task, hidden=values)
        played = run_episode(env, flawed_player(flaws), seed=5, task=other, episode_key="one")
        firsts.add(tuple(turn.action for turn in played.trajectory.turns[:3]))
    assert len(firsts) == 1


def test_settings_as_json():
    assert expanded_flaws_of("none") == ExpandedFlaws()
    text = '{"early": 0.1, "strategy": "mixture", "algorithms": {"merge": 1, "bubble": 2.5}}'
    wanted = ExpandedFlaws(early=0.1, strategy="mixture", algorithms=(("merge", 1), ("bubble", 2.5)))
    assert expanded_flaws_of(text) == wanted
    assert hash(expanded_flaws_of(text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"early": 1.5}', "early=1.5: give a chance from 0 to 1"),
        ('{"silent": NaN}', "silent=nan: give a chance"),
        ('{"skip": "half"}', "skip='half': give a chance"),
        ('{"sampled": true}', "sampled=True: give a chance"),
        ('{"early": 0.5, "sampled": 0.6}', "early, repeated, sampled sum to at most 1"),
        ('{"strategy": "luck"}', "strategy='luck': use solver, fixed_order, mixture"),
        ('{"strategy": "mixture"}', "algorithms belong to strategy='mixture', which needs some"),
        ('{"algorithms": {"merge": 1}}', "algorithms belong to strategy='mixture'"),
        ('{"strategy": "mixture", "algorithms": {"quick": 1}}', "algorithm 'quick' is unknown"),
        ('{"strategy": "mixture", "algorithms": {"merge": 0}}', "merge has weight 0; give a number above 0"),
        ('{"strategy": "mixture", "algorithms": [3]}', "none, or a JSON object"),
        ('{"strategy": ["solver"]}', r"strategy=\['solver'\]"),
        ('{"greedy": 1}', "none, or a JSON object of the fields of ExpandedFlaws"),
        ("[]", "none, or a JSON object"),
        ("{", "none, or a JSON object"),
    ],
)
def test_settings_that_are_refused(text, said):
    with pytest.raises(UsageError, match=said):
        expanded_flaws_of(text)


def test_environments_that_are_refused():
    with pytest.raises(UsageError, match="Sort-v0 has no expanded actions"):
        shown(1, "Sort")
    for name in ("OrderExpA", "CountdownExpA"):
        with pytest.raises(UsageError, match=f"{name}-v0: strategy='fixed_order' is for sorting tasks"):
            shown(1, name, strategy="fixed_order")
    with pytest.raises(UsageError, match="none of the mixture's algorithms is for 3 items"):
        shown(1, strategy="mixture", algorithms=(("network-4", 1.0),), arguments={"size": 3})
    with pytest.raises(UsageError, match=r"call begin\(env\) first"):
        flawed_player(ExpandedFlaws()).act([])
