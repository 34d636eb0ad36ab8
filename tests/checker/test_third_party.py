"""`check_third_party`: a sound environment of anyone's passes every part, and each broken one fails in its own."""

import math
import random
import re
import signal
import string
import sys

import gymnasium as gym
import pytest

from agent_envs import EnvFault, MissingExtra, UsageError
from agent_envs.checker.third_party import PARTS, check_third_party
from agent_envs.integrations.third_party import third_party_env

TEXT = gym.spaces.Text(2_000, min_length=0, charset=string.printable)


class Sums(gym.Env):
    """Two tries at a sum: sound."""

    action_space = observation_space = TEXT
    one = two = tries = 0
    begun = False

    def numbers(self):
        return self.np_random.integers(100, 1_000, 2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.tries, self.begun = 0, True
        self.one, self.two = self.numbers()
        return self.question(), {}

    def question(self):
        return f'Add the numbers "{self.one}" and "{self.two}", and write the sum in <sum> and </sum>.'

    def step(self, action):
        if not self.begun:
            raise gym.error.ResetNeeded("reset first")
        self.tries += 1
        reward = self.reward(action)
        return f"Try {self.tries} is over. {self.question()}", reward, self.tries == 2 or reward >= 1, False, {}

    def reward(self, action):
        return float(action == f"<sum>{self.one + self.two}</sum>")


class IgnoresItsSeed(Sums):
    def numbers(self):
        return random.Random().sample(range(100, 1_000), 2)


class DrawsOnItsOwn(Sums):
    """Equal in every fresh environment, and another one at each reset."""

    def __init__(self):
        self.dice = random.Random(0)

    def numbers(self):
        return self.dice.sample(range(100, 1_000), 2)


class HasOneTask(Sums):
    def numbers(self):
        return 123, 456


class RewardsByChance(Sums):
    def reward(self, action):
        return super().reward(action) or random.random() / 10


class RaisesOnSilence(Sums):
    def reward(self, action):
        return super().reward(action[0] and action)


class RaisesOnSurrogates(Sums):
    def reward(self, action):
        return super().reward(action.encode().decode())


class PaysForLines(Sums):
    def reward(self, action):
        return float(self.question() in action)


class PaysForWords(Sums):
    def reward(self, action):
        return float(len(action) > 2 and action in re.findall(r"\w+", self.question()))


class PaysForItsExample(Sums):
    """Sound: its question shows an answer, which is read as one, and pays for its form where it is said back."""

    def question(self):
        return f"{super().question()} So does <sum>{self.one}</sum>."

    def reward(self, action):
        return super().reward(action) or (0.2 if re.search(r"<sum>\d+</sum>", action) else -0.2)


class PaysForItsForm(Sums):
    """Sound: what stands in the tag is not read for the half of it."""

    def reward(self, action):
        return super().reward(action) or (0.2 if action.startswith("<sum>") else -0.2)


class CanBePlayedBlind(Sums):
    """Half of all texts solve it, the same for each seed."""

    def reward(self, action):
        return float(self.tries == 2 and len(action) % 2 == self.one % 2)


class PaysEverything(Sums):
    def reward(self, action):
        return 1.0


class ShowsOddCharacters(Sums):
    def question(self):
        return f"{super().question()} \u20ac"


class PaysNoNumber(Sums):
    def reward(self, action):
        return math.nan


class NeedsNoReset(Sums):
    """Without a guard of its own below Gymnasium's."""

    begun = True


class CrashesBeforeItsReset(Sums):
    begun, tries = True, None


class Exits(Sums):
    def reward(self, action):
        return super().reward(action) or (sys.exit(0) if action == "" else 0.0)


class ExitsAsItCloses(Sums):
    def close(self):
        sys.exit(0)


class LosesItsConnection(Sums):
    def reward(self, action):
        if action == "":
            raise ConnectionError("no\npassed          no exception                  all is well")
        return super().reward(action)


class HidesItsNumber(Sums):
    """Sound: one observation for all seeds, and a reward of silence by the seed."""

    def question(self):
        return "Guess."

    def reward(self, action):
        return 0.1 * (action == "" and self.one % 2)


SOLVES = {"null agent", "random agents", "blind replay"}
BROKEN = {
    Sums: set(), PaysForItsForm: set(), PaysForItsExample: set(),
    IgnoresItsSeed: {"seeds"}, DrawsOnItsOwn: {"seeds"}, HasOneTask: {"seeds"},
    RewardsByChance: {"determinism"}, RaisesOnSilence: {"no exception"}, RaisesOnSurrogates: {"no exception"},
    PaysForLines: {"copied observations"}, PaysForWords: {"copied observations"}, CanBePlayedBlind: {"blind replay"},
    PaysEverything: SOLVES, ShowsOddCharacters: {"observations"}, PaysNoNumber: {"observations"},
    NeedsNoReset: {"step before reset"}, CrashesBeforeItsReset: set(), Exits: {"no exception"},
    LosesItsConnection: {"no exception"}, ExitsAsItCloses: {"no exception"}, HidesItsNumber: set(),
}  # fmt: skip
# What a broken part leaves no way to ask.
UNASKED = {
    IgnoresItsSeed: {"determinism", "blind replay"}, DrawsOnItsOwn: {"determinism", "blind replay"},
    RaisesOnSilence: {"null agent", "copied observations"}, CrashesBeforeItsReset: {"step before reset"},
    Exits: {"null agent", "copied observations"}, LosesItsConnection: {"null agent", "copied observations"},
    PaysNoNumber: {"null agent", "random agents", "copied observations", "blind replay"},
}  # fmt: skip
for kind in BROKEN:
    gym.register(f"third_party/{kind.__name__}-v0", kind)


def report(name, solved=1.0, episodes=8, hostile=60, **arguments):
    return check_third_party(third_party_env(name, arguments, solved), episodes=episodes, hostile=hostile)


def parts(done, status):
    return {check.name for check in done.checks if check.status == status}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_each_broken_environment_fails_in_its_own_part_alone(kind):
    done = report(f"gym:third_party/{kind.__name__}-v0")
    assert parts(done, "failed") == BROKEN[kind], done.text()
    assert parts(done, "cannot be asked") == UNASKED.get(kind, set()), done.text()
    assert len(done.text().splitlines()) == len(PARTS) + 2, "an environment wrote lines of its report"
    assert len(done.checks) == len(PARTS) and done.ok == (not BROKEN[kind])


def test_what_is_solved_has_to_be_known_where_anything_was_earned():
    done = report("gym:third_party/RewardsByChance-v0", solved=None)
    assert parts(done, "cannot be asked") == SOLVES
    assert all("--solved" in check.detail for check in done.checks if check.name in SOLVES)
    assert not parts(report("gym:third_party/Sums-v0", solved=None), "cannot be asked")


@pytest.mark.parametrize("kind", [CanBePlayedBlind, PaysEverything], ids=lambda kind: kind.__name__)
def test_where_returns_reach_1_and_no_more_that_is_solved(kind):
    assert parts(report(f"gym:third_party/{kind.__name__}-v0", solved=None), "failed") == BROKEN[kind]


def test_an_environment_without_text_is_asked_what_it_can_be():
    done = report("gym:CartPole-v1", solved=None, episodes=3)
    assert done.ok and parts(done, "cannot be asked") == {"null agent", "copied observations", "no exception"}
    assert parts(report("gym:CartPole-v1", solved=40.0, episodes=3), "failed") == {"blind replay"}
    assert "6 passed, 3 cannot be asked" in done.text() and done.to_json()["counts"] == {
        "passed": 6, "cannot be asked": 3,
    }  # fmt: skip


def test_ids_of_a_module_and_of_ours_are_imported():
    done = report("gym:agent_envs:agent_envs/SearchQA-v0", solved=None, episodes=2, hostile=30, max_generations=2)
    assert done.ok and not parts(done, "cannot be asked"), done.text()


def test_one_seed_says_nothing_of_others():
    assert parts(report("gym:third_party/Sums-v0", episodes=1), "cannot be asked") == {"seeds"}


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("gym:Nothing-v0", UsageError, "Nothing"),
        ("gym:no_such_module:Nothing-v0", UsageError, "no_such_module"),
        ("gym:", UsageError, "check gym::"),
        ("openenv:http://127.0.0.1:9", MissingExtra, r'pip install "agent-envs\[openenv\]"'),
        ("verifiers:nothing", MissingExtra, r'pip install "agent-envs\[verifiers\]"'),
    ],
)
def test_what_cannot_be_opened_is_one_line(name, error, words, monkeypatch):
    for package in ("openenv", "openenv.core.generic_client", "verifiers", "verifiers.v1"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(error, match=words) as caught:
        third_party_env(name, {})
    assert "\n" not in str(caught.value)


def test_names_without_a_scheme_are_not_anyones():
    assert third_party_env("SearchQA", {}) is None and third_party_env("tests.toy:Guess", {}) is None


def test_what_it_raises_is_told_with_its_line_a_keyboard_interrupt_too(monkeypatch):
    class Interrupts(Sums):
        def reward(self, action):
            raise KeyboardInterrupt

    gym.register("third_party/Interrupts-v0", Interrupts)
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):  # it may be a person's
        report("gym:third_party/Interrupts-v0")
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_IGN)  # the command line has a handler of its own
    (detail,) = (
        check.detail for check in report("gym:third_party/Interrupts-v0").checks if check.name == "no exception"
    )
    place = f"{__file__}:{Interrupts.reward.__code__.co_firstlineno + 1}"
    assert "raised KeyboardInterrupt: " in detail and f"({place}) (" in detail


def test_a_service_that_is_away_is_no_finding():
    class Away(Sums):
        def reward(self, action):
            raise EnvFault("the judge is away")

    gym.register("third_party/Away-v0", Away)
    with pytest.raises(EnvFault, match="judge"):
        report("gym:third_party/Away-v0")
