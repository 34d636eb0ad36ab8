"""Environments that each break one promise of the contract, and are the toy in all else: what the checker must catch."""

import random
from dataclasses import replace

from agent_envs import Message, RewardSpec, Term, register_companions
from agent_envs.base.protocol import Answer
from agent_envs.core.env import Outcome
from tests.toy import Guess, Numbers, sampler, solver


def _read_observation(trajectory):
    texts = [message.content for message in trajectory.last.observation]
    return float(any(f"<answer>{gold}</answer>" in text for gold in trajectory.task.gold for text in texts))


def _read_results(trajectory):
    texts = [result.content for result in trajectory.last.results]
    return float(any(gold in text for gold in trajectory.task.gold for text in texts))


class ReadsObservations(Guess):
    """The published bug: the reward matches the answer in what the environment wrote."""

    def __init__(self, *, turns: int = 9) -> None:
        super().__init__(turns=turns)
        term = Term("observed", 0.0, 1.0, "the answer stands in the observation", _read_observation)
        self.reward_spec = RewardSpec("observed", (*self.reward_spec.terms, term), (-1.0, 20.0))


class ReadsResults(Guess):
    """The same bug over the typed results' text."""

    def __init__(self, *, turns: int = 9) -> None:
        super().__init__(turns=turns)
        term = Term("found", 0.0, 1.0, "the answer stands in a result", _read_results)
        self.reward_spec = RewardSpec("found", (*self.reward_spec.terms, term), (-1.0, 20.0))


class ReadsItsOwnWords(ReadsObservations):
    """The same bug where nothing is marked as a tool's: all that is shown is the environment's, and no result is typed."""

    def _advance(self, episode, action):
        outcome = super()._advance(episode, action)
        shown = tuple(replace(message, author="environment") for message in outcome.observation)
        return replace(outcome, observation=shown, results=())


def _number_within(trajectory):
    parsed = trajectory.last.parsed
    return float(isinstance(parsed, Answer) and trajectory.task.gold[0] in parsed.text)


class ReadsTextInText(Guess):
    """An answer is right where the number is part of its text: `150` is 50."""

    def __init__(self, *, turns: int = 9) -> None:
        super().__init__(turns=turns)
        term = Term("within", 0.0, 1.0, "the number is part of the answer", _number_within)
        self.reward_spec = RewardSpec("within", (*self.reward_spec.terms, term), (-1.0, 20.0))


class LeaksNumber(Guess):
    """The prompt tells the scenario, which is a number and no text."""

    def _begin(self, task, key):
        state, messages = super()._begin(task, key)
        return state, (*messages, Message("user", f"(for testers: {task.hidden})", "environment"))


class LeaksOnTheWay(Guess):
    """A hint tells the scenario after the solver's first move alone."""

    def _advance(self, episode, action):
        outcome = super()._advance(episode, action)
        if action != "<compare>50</compare>":
            return outcome
        return replace(outcome, observation=(Message("user", f"psst: {episode.task.gold}", "environment"),))


class LosesTasksById(Guess):
    """Its tasks have no access by id, so that no record replays."""

    def __init__(self, *, turns: int = 9) -> None:
        super().__init__(turns=turns)
        self.source = _IndexOnly()


class _IndexOnly(Numbers):
    def get(self, split, key):
        if isinstance(key, str):
            raise KeyError(key)
        return super().get(split, key)


class LeaksGold(Guess):
    """The prompt tells the answer."""

    def _begin(self, task, key):
        state, messages = super()._begin(task, key)
        return state, (*messages, Message("user", f"(for testers: {task.gold[0]})", "environment"))


class LeaksScenarioLate(Guess):
    """A hint tells the scenario in its third turn."""

    def _advance(self, episode, action):
        outcome = super()._advance(episode, action)
        if len(episode.turns) != 2 or outcome.terminated:
            return outcome
        return replace(outcome, observation=(Message("user", f"psst: {episode.task.gold}", "environment"),))


class SharesState(Guess):
    """A list on the environment, which a fork shares."""

    def __init__(self, *, turns: int = 9) -> None:
        super().__init__(turns=turns)
        self.asked = []

    def _begin(self, task, key):
        self.asked.clear()
        return super()._begin(task, key)

    def _advance(self, episode, action):
        self.asked.append(action)
        outcome = super()._advance(episode, action)
        return replace(outcome, observation=(Message("user", f"turn {len(self.asked)}", "environment"),))


class PicklesItsStart(Guess):
    """A pickled copy begins anew, whatever was played."""

    def __reduce__(self):
        return type(self), ()


class DrawsGlobally(Guess):
    """Its hints come from the global generator."""

    def _advance(self, episode, action) -> Outcome:
        outcome = super()._advance(episode, action)
        return replace(outcome, observation=(Message("user", f"{random.random()}", "environment"),))


class CountsHashes(Guess):
    """Its hints depend on PYTHONHASHSEED."""

    def _advance(self, episode, action) -> Outcome:
        outcome = super()._advance(episode, action)
        return replace(outcome, observation=(Message("user", f"{hash(action)}", "environment"),))


class ActsByHash(Guess):
    """Its heuristic takes what comes first in a set."""


class RaisesOnOddText(Guess):
    """It parses numbers without care."""

    def _advance(self, episode, action) -> Outcome:
        if action.startswith("<compare>"):
            int(action.removeprefix("<compare>").removesuffix("</compare>"))
        return super()._advance(episode, action)


class AddsInfo(Guess):
    """An info key that nobody documented."""

    def _extras(self, episode):
        return {"hints": len(episode.turns)}


class LiesAboutBounds(Guess):
    """Returns exceed what is declared."""

    def __init__(self, *, turns: int = 9) -> None:
        super().__init__(turns=turns)
        self.reward_spec = RewardSpec("guess", self.reward_spec.terms, (-0.01, 0.5))


class CannotBeSolved(Guess):
    """Its solver is wrong."""


class PaysSilence(Guess):
    """Silence earns as much as the answer."""

    def __init__(self, *, turns: int = 2) -> None:
        super().__init__(turns=turns)
        self.reward_spec = RewardSpec("guess", (Term("gift", 1.0, 1.0, "always", lambda trajectory: 1.0),), (1.0, 2.0))


def _detour(env):
    return solver(env) if env.unwrapped.episode.turns else "<compare>50</compare>"


def _silent(env, rng):
    return rng.choice(["hm", "<luck>x</luck>"])


def _first_of_a_set(request):
    return min({"some", "other", "words", "of", "one", "kind"}, key=lambda word: 0)


register_companions(ActsByHash, solver=solver, sampler=sampler, heuristic=_first_of_a_set)
register_companions(LeaksOnTheWay, solver=_detour, sampler=_silent)
register_companions(CannotBeSolved, solver=lambda env: "<answer>0</answer>", sampler=sampler)
register_companions(PaysSilence, solver=solver, sampler=sampler)
