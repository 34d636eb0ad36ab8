"""From a suite and an agent to numbers with intervals: the run, its resumption and its result."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agent_envs.services.chat.named import is_chat_name
from agent_envs.services.chat.prices import Price, check_limit, cost_of, load_prices
from agent_envs.services.chat.spending import Purse
from agent_envs.evaluation.runs.suite_feedback import FeedbackCharge, check_priced, feedback_cost, feedback_prices
from agent_envs.evaluation.html.agents import make_agent
from agent_envs.evaluation.runs.episode_numbers import EpisodeNumbers
from agent_envs.evaluation.html.limited import Limited
from agent_envs.evaluation.runs.measures import Measures
from agent_envs.evaluation.suites.plan import entry_env, plan_of
from agent_envs.evaluation.runs.run_folder import Played, Run, Settings, claim, open_run, same_identity, save_results
from agent_envs.evaluation.html.statistics.rates import Rate
from agent_envs.evaluation.suites.suite import Suite
from agent_envs.evaluation.runs.summary import Summary, score_of, summarise
from agent_envs.services.recording import Recording
from agent_envs.base.jsonl_log import read_journal
from agent_envs.rollout.chat_policy import ChatPolicy
from agent_envs.rollout.policy import Policy, check_actions, core_of
from agent_envs.rollout.run_log import Planned
from agent_envs.rollout.run_many import Services, run_many
from agent_envs.wrappers.feedback_costs import PREFIX

Progress = Callable[[int, int, float], None]
Keep = Callable[[Played], None]
FREE = Price(input=0.0, output=0.0)


@dataclass(frozen=True)
class Result:
    """What a run came to. `score` is None for a suite whose mean says nothing, such as a sweep."""

    suite: Suite
    settings: Settings
    summaries: tuple[Summary, ...]
    score: Rate | None
    complete: bool

    def to_json(self) -> dict[str, Any]:
        """Return plain data: one entry flat, several under `entries`, with the suite's score where it has one."""
        head = {"suite": self.suite.name, "suite_digest": self.suite.digest(), "agent": self.settings.agent,
                "trials": self.suite.trials, "smoke": self.settings.smoke, "complete": self.complete}  # fmt: skip
        rows = [summary.to_json() for summary in self.summaries]
        if len(rows) == 1:
            return {**head, **rows[0]}
        if self.score is not None:
            head |= {"success": self.score.value, "interval": [self.score.low, self.score.high]}
        return {**head, "entries": rows}


def evaluate(
    suite: Suite,
    settings: Settings,
    *,
    policy: Policy | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
    keep: Keep | None = None,
) -> Result:
    """Play a suite and return its numbers.

    Args:
        suite: what is played.
        settings: who plays and how.
        policy: the agent itself, where `settings.agent` is only its name.
        folder: where the run is kept; a killed one goes on from there. None: nothing is kept.
        progress: called with (finished, planned, successes so far).
        keep: called with each finished episode, in the order of finishing.

    Raises:
        UsageError: the folder holds a run of another configuration, or the suite is another one here.
    """
    cast = _cast(suite, settings, policy)  # what cannot be is refused before there is a folder
    for entry in suite.entries if getattr(cast.actor, "text_only", False) else ():
        check_actions(cast.actor, core_of(entry_env(entry)))
    plan = plan_of(suite)
    run = claim(folder, suite, settings) if folder is not None else None
    return _play(suite, plan, cast, run, _Watch(progress, keep))


def resume(folder: Path, progress: Progress | None = None) -> Result:
    """Go on with the run of a folder, as it was begun.

    Raises:
        UsageError: there is none, or something that it rests on has changed; the message names it.
    """
    run = open_run(folder)
    same_identity(run)
    config = run.config
    cast = _cast(run.suite, config.settings(), None, (config.price, config.feedback_prices))
    return _play(run.suite, plan_of(run.suite), cast, run, _Watch(progress, None))


@dataclass(frozen=True)
class _Watch:
    progress: Progress | None
    keep: Keep | None


Paid = tuple[Price | None, Mapping[str, Price]]  # the agent's price, and those of feedback models by their names


@dataclass(frozen=True)
class _Cast:
    settings: Settings
    actor: Policy
    prices: Paid


def _cast(suite: Suite, settings: Settings, policy: Policy | None, known: Paid | None = None) -> _Cast:
    table = load_prices(Path(settings.prices) if settings.prices else None)
    prices = known or (table.price(settings.agent), feedback_prices(suite, table))
    most = settings.max_cost_usd
    if most is not None:
        check_priced(suite, prices[1])
        free = prices[1] and not is_chat_name(settings.agent)  # then the limit is one on feedback
        check_limit(most, prices[0] or (FREE if free else None), settings.agent)
    actor = policy or make_agent(settings.agent, **settings.agent_options)
    if most is not None and isinstance(actor, ChatPolicy):  # a class of somebody's may be one
        check_limit(most, prices[0], settings.agent)
    return _Cast(settings, actor, prices)


def _behind_a_limit(cast: _Cast, suite: Suite, run: Run | None) -> tuple[Policy, FeedbackCharge | None]:
    """Return the agent, and what stands before feedback models, under one limit, if there is one."""
    most, (price, prices) = cast.settings.max_cost_usd, cast.prices
    if most is None:
        return cast.actor, None
    purse = Purse(price or FREE, most)
    for row in read_journal(run.log().path) if run is not None else ():
        purse.pay(row.get("usage", {}))
    charge = FeedbackCharge(suite, prices, purse, run.externals if run is not None else None)
    return cast.actor if price is None else Limited(cast.actor, purse), charge


def _play(suite: Suite, plan: list[Planned], cast: _Cast, run: Run | None, watch: _Watch) -> Result:
    settings = cast.settings
    if (meets := getattr(cast.actor, "meets", None)) is not None:
        for entry in suite.entries:
            meets(entry_env(entry))
    actor, charged = _behind_a_limit(cast, suite, run)
    places = {key: (entry, cluster, trial) for key, entry, _, cluster, trial in suite.episodes()}
    found: dict[str, EpisodeNumbers] = {}
    measures = Measures()
    wins = 0
    earlier = run is not None and run.has_unfinished()
    with ExitStack() as stack:
        log = None
        if run is not None:
            log = replace(run.log(), recording=stack.enter_context(Recording(run.externals, "record")))
        played_on = run_many(
            plan, actor, concurrency=settings.concurrency, journal=log, services=Services(charged=charged)
        )
        episodes = stack.enter_context(closing(played_on))
        for item, result in episodes:
            played = Played(item.key, *places[item.key], result)
            found[item.key] = played.numbers(measures)
            wins += found[item.key].success
            if watch.keep is not None:
                watch.keep(played)
            if watch.progress is not None:
                watch.progress(len(found), len(plan), wins)
    if run is not None and (earlier or len(found) < len(plan)):
        numbers = run.numbers(measures)  # with what earlier parts of the run spent and had to leave
    else:
        numbers = measures.planned(suite, found)
    outcome = result_from(suite, settings, numbers, *cast.prices)
    if run is not None:
        if run.externals.stat().st_size == 0:
            run.externals.unlink()
        save_results(run, outcome.to_json())
    return outcome


def result_from(
    suite: Suite,
    settings: Settings,
    numbers: list[EpisodeNumbers],
    price: Price | None,
    feedback: Mapping[str, Price] = MappingProxyType({}),
) -> Result:
    """Return the result of planned episodes as numbers, in the order of the suite.

    Args:
        suite: what was played.
        settings: how.
        numbers: of every planned episode.
        price: the agent's.
        feedback: prices of feedback models, by their names in the suite.
    """
    given = {entry.label: entry.feedback for entry in suite.entries}
    advice = [feedback_cost(item.usage, given[item.entry], feedback) for item in numbers]
    costs = [_cost(item, price, more) for item, more in zip(numbers, advice, strict=True)]
    summaries = summarise(suite, numbers, costs, advice)
    complete = all(item.played for item in numbers)
    return Result(suite, settings, summaries, score_of(suite, summaries), complete)


def result_of_run(run: Run, measures: Measures | None = None) -> tuple[Result, list[EpisodeNumbers]]:
    """Return the result of a run as its journal has it now, and the numbers behind it."""
    numbers = run.numbers(measures)
    config = run.config
    return result_from(run.suite, config.settings(), numbers, config.price, config.feedback_prices), numbers


def _cost(item: EpisodeNumbers, price: Price | None, feedback: float | None) -> float | None:
    """Return what an episode cost, the agent and its feedback together; None where a price is not known."""
    if feedback is None:
        return None
    if price is not None:
        return cost_of(price, item.usage) + feedback
    return None if any(not name.startswith(PREFIX) for name in item.usage) else feedback
