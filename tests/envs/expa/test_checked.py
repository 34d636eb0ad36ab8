"""The checker finds environments whose expanded actions break a promise."""

from dataclasses import replace

import numpy as np
import pytest

from agent_envs import check_turn_env
from agent_envs.checker.expanded import EXPANDED_CHECKS
from agent_envs.envs.expa.sorting.env import SortExpA

SORT = "agent_envs/SortExpA-v0"


class MasksTooMuch(SortExpA):
    """Its mask forbids what is legal."""

    def _extras(self, episode):
        extras = super()._extras(episode)
        extras["action_mask"][3:] = False
        return extras


class MasksNothing(SortExpA):
    """Its mask allows what is refused."""

    def _extras(self, episode):
        extras = super()._extras(episode)
        extras["action_mask"][:] = True
        return extras


class MovesOnIllegal(SortExpA):
    """An illegal action enters an environment."""

    def _refusal(self, state, why):
        return replace(super()._refusal(state, why), state=replace(state, active="compare"))


class KeepsQuiet(SortExpA):
    """An illegal action is not explained."""

    def _refusal(self, state, why):
        return replace(super()._refusal(state, why), events=())


class EndsLast(SortExpA):
    """Its ids are in another order than they must be."""

    def route_to(self, *environments):
        super().route_to(*environments)
        self.expanded_actions = self.expanded_actions[::-1]


class RaisesOnIds(SortExpA):
    """An id beyond the table raises."""

    def _read(self, action):
        if isinstance(action, int) and not 0 <= action < 8:
            raise IndexError(action)
        return super()._read(action)


class SkipsIds(SortExpA):
    """Its ids are not the places in its table."""

    def route_to(self, *environments):
        super().route_to(*environments)
        self.expanded_actions = tuple(replace(action, id=action.id + 1) for action in self.expanded_actions)


class RefusesOne(SortExpA):
    """One action that its mask allows is refused."""

    def _take_action(self, episode, action):
        return self._refusal(episode.state, "I will not") if action == 2 else super()._take_action(episode, action)


class EndsByText(SortExpA):
    """Text ends the episode."""

    def _write(self, episode, text):
        return replace(super()._write(episode, text), terminated=True)


class RaisesOnTheCount(SortExpA):
    """The first id beyond the table raises."""

    def _read(self, action):
        if not isinstance(action, str) and action == len(self.expanded_actions):
            raise IndexError(action)
        return super()._read(action)


@pytest.mark.parametrize(
    "cls",
    [MasksTooMuch, MasksNothing, MovesOnIllegal, KeepsQuiet, EndsLast, RaisesOnIds, SkipsIds, RefusesOne, EndsByText,
     RaisesOnTheCount],
)  # fmt: skip
def test_the_checker_finds_each_broken_promise(cls, monkeypatch):
    monkeypatch.setattr("agent_envs.checker.CHECKS", EXPANDED_CHECKS)  # tests/cli/test_check.py has them all
    report = check_turn_env(cls(), episodes=2, hostile=50)
    assert [check.status for check in report.checks] == ["failed"], report.text()


def test_hostile_integers_are_among_the_hostile_steps():
    class RaisesOnNumpy(SortExpA):
        def _read(self, action):
            if isinstance(action, np.integer):
                raise TypeError("numpy")
            return super()._read(action)

    RaisesOnNumpy.__module__, RaisesOnNumpy.__qualname__ = __name__, "RaisesOnNumpy"
    globals()["RaisesOnNumpy"] = RaisesOnNumpy
    report = check_turn_env(RaisesOnNumpy(), episodes=1, hostile=200)
    failed = {check.name: check.detail for check in report.checks if check.status == "failed"}
    assert "numpy" in failed["hostile text"] and "action np." in failed["hostile text"], report.text()


def test_a_sound_environment_passes_and_text_alone_skips_nothing():
    for env_id in (SORT, "agent_envs/Sort-v0"):
        report = check_turn_env(env_id, episodes=2, hostile=100)
        assert report.ok and all(check.status == "passed" for check in report.checks), report.text()
    assert "takes text alone" in next(check.detail for check in report.checks if check.name == "expanded actions")
