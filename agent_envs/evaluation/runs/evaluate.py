"""`evaluate` plays a suite with an agent, `resume` goes on with a stopped run, and both return numbers with intervals."""

import re
import sys
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.jsonl_log import read_journal
from agent_envs.core.authors_code import author_line
from agent_envs.core.env import core_of
from agent_envs.evaluation.runs.costs import (
    check_priced,
    estimate,
    feedback_cost,
    feedback_models,
    pilot_first,
    prices_of,
    recorded_counts,
)
from agent_envs.evaluation.runs.live import Episodes, Progress, SignsOfLife, Stage, Tell, meet_servers
from agent_envs.evaluation.runs.measures import EpisodeNumbers, Measures, numbers_of
from agent_envs.evaluation.runs.run_folder import (
    Run,
    RunEpisode,
    RunPrices,
    Settings,
    claim,
    open_run,
    same_identity,
    save_results,
)
from agent_envs.evaluation.runs.summary import Summary, averages_of, has_result, score_of, summarise, total_cost
from agent_envs.evaluation.statistics.rates import Rate
from agent_envs.evaluation.suites.plan import entry_env, notes_on, plan_of
from agent_envs.evaluation.suites.suite import Suite
from agent_envs.rollout.chat_policy import ChatPolicy
from agent_envs.rollout.episode_runner import Planned
from agent_envs.rollout.policy import CompanionPolicy, NullPolicy, Policy, Reply, Request, check_actions, traits_of
from agent_envs.rollout.run_many import run_many, set_damaged_aside
from agent_envs.services.chat.model import UNCOUNTED, known_counts
from agent_envs.services.chat.named import FORMS, is_chat_name, make_chat_model
from agent_envs.services.chat.prices import Price, check_limit, cost_of
from agent_envs.services.chat.spending import Budget, Counts, RunBudgets, SpendingLimits
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services
from agent_envs.wrappers.feedback_models import PORT, PREFIX

BUILT_IN = ("random", "heuristic", "solver", "null")
# Agents of a checkout by short names: the class, and the option that is what stands behind the colon.
OF_A_CHECKOUT = {
    "baseline": ("baselines.agents:{}", ""),
    "trained": ("trainers.trained_agent:TrainedAgent", "folder"),
    "hf": ("trainers.trained_agent:ModelAgent", "model"),
}
FAULTS_IN_A_ROW = 8  # with one cause: then a run stops, as the next would fail too
_COUNTS = re.compile(r"[0-9]+(\.[0-9]+)?")
FREE = Price(input=0.0, output=0.0)


@dataclass(frozen=True)
class Result:
    """The results of a run."""

    suite: Suite
    settings: Settings
    summaries: tuple[Summary, ...]
    score: Rate | None  # None for a suite whose mean says nothing, such as a sweep, and where nothing was measured
    complete: bool
    gave_up: bool = False  # it stopped, as episode after episode ended in one and the same fault

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the suite from before it was played, which a reader of the numbers needs; () where none are stored."""
        return self.settings.notes.lines if self.settings.notes is not None else ()

    @property
    def cost_usd(self) -> float | None:
        """US dollars of all entries; None where a price is not known."""
        return total_cost([summary.cost_usd for summary in self.summaries])

    @property
    def averages(self) -> dict[str, Rate]:
        """The averages of the suite by name; none where nothing was measured."""
        rates = [summary.success for summary in self.summaries]
        return averages_of(self.suite, rates) if has_result(self.summaries) else {}

    def to_json(self) -> dict[str, Any]:
        """Return plain data: one entry flat, several under `entries`, with the suite's score where it has one."""
        head: dict[str, Any] = {"suite": self.suite.name, "suite_digest": self.suite.digest(), "agent": self.settings.agent,
                "trials": self.suite.trials, "smoke": self.settings.smoke, "complete": self.complete}  # fmt: skip
        if self.notes:
            head["notes"] = list(self.notes)
        rows = [summary.to_json() for summary in self.summaries]
        if len(rows) == 1:
            return {**head, **rows[0]}
        if self.suite.scored:
            value, low, high = (self.score.value, self.score.low, self.score.high) if self.score else (None,) * 3
            head |= {"success": value, "interval": [low, high]}
        if averages := {name: [rate.value, rate.low, rate.high] for name, rate in self.averages.items()}:
            head["averages"] = averages
        return {**head, "entries": rows}


def evaluate(
    suite: Suite,
    settings: Settings,
    *,
    policy: Policy | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
    tell: Tell | None = None,
) -> Result:
    """Play a suite and return its numbers; UsageError for another run in the folder, EnvFault if a model does not answer.

    Args:
        suite: what is played.
        settings: who plays and how.
        policy: the agent itself, where `settings.agent` is only its name.
        folder: where the run is kept; a killed one goes on from there. None: nothing is kept.
        progress: called with (finished, planned, successes so far, how many faults and the last one's cause).
        tell: is told what a model's server is like, what a run with a model will take, after its first episodes and before the
            rest begins, and signs of life.

    Raises:
        UsageError: the folder holds a run of another configuration, or the suite is another one here.
        EnvFault: a chat model that the run needs does not answer.
    """
    # What cannot be is refused before there is a folder.
    setup = replace(_set_up(suite, settings, policy, prices_of(suite, settings)), tell=tell, pilot=tell is not None)
    for entry in suite.entries if traits_of(setup.actor).text_only else ():
        check_actions(setup.actor, core_of(entry_env(entry)))
    plan = plan_of(suite)
    meet_servers(suite, setup.actor, setup.prices, tell)
    if settings.notes is None:
        settings = replace(settings, notes=notes_on(suite))
        setup = replace(setup, settings=settings)
    run = claim(folder, suite, settings, setup.prices) if folder is not None else None
    return _play(suite, plan, setup, run, progress)


def set_aside(folder: Path, lost: Callable[[Run], Collection[str]]) -> tuple[int, int]:
    """Move what is damaged in a run's journal and recording to files beside them; return how many rows and answers.

    Args:
        folder: of the run, which another process may not be playing.
        lost: the keys of its finished episodes that need an answer which was moved.
    """
    run = open_run(folder)
    same_identity(run)
    plan, actor = plan_of(run.suite), _set_up(run.suite, run.config.settings(), None, run.config.prices).actor
    rows, answers = set_damaged_aside(run.log(), plan, actor)
    if run.externals.with_name("externals-damaged.jsonl").exists():  # of this call, or of one that was killed
        rows += set_damaged_aside(run.log(), plan, actor, lost(run))[0]
    return rows, answers


def resume(folder: Path, progress: Progress | None = None, tell: Tell | None = None, actors: int = 0) -> Result:
    """Resume a folder's run, or return its cached numbers if complete; UsageError for changes in files or code since.

    `progress` and `tell` are those of `evaluate`; there is no pilot. `actors` are those of `Settings`, in this part of the run.
    """
    run = open_run(folder)
    same_identity(run)
    config = run.config
    if (numbers := run.numbers_cache().load()) is not None:  # nothing is left to play
        if progress is not None:
            progress(len(numbers), len(numbers), sum(row.success for row in numbers), "")
        outcome = result_from(run.suite, config.settings(), numbers, config.prices)
        save_results(run, outcome.to_json())
        return outcome
    setup = replace(_set_up(run.suite, replace(config.settings(), actors=actors), None, config.prices), tell=tell)
    meet_servers(run.suite, setup.actor, config.prices, tell, lambda: not all(row.complete for row in run.numbers()))
    return _play(run.suite, plan_of(run.suite), setup, run, progress)


@dataclass(frozen=True)
class _EvaluationSetup:
    settings: Settings
    actor: Policy
    prices: RunPrices
    tell: Tell | None = None
    by_name: bool = True  # whether the agent can be made again
    pilot: bool = False  # whether an estimate is wanted, from the first episodes


def _set_up(suite: Suite, settings: Settings, policy: Policy | None, prices: RunPrices) -> _EvaluationSetup:
    """Make the agent or take `policy`, and check that a cost limit can hold; UsageError where a model has no price."""
    most = settings.max_cost_usd
    if settings.actors and most is not None and prices.feedback:
        raise UsageError("--max-cost and feedback by a model are counted in one process: leave out --backend ray")
    if most is not None:
        check_priced(suite, prices.feedback)
        free = prices.feedback and not is_chat_name(settings.agent)  # then the limit is one on feedback
        check_limit(most, prices.agent or (FREE if free else None), settings.agent)
    actor = policy or make_agent(settings.agent, **settings.agent_options)
    if most is not None and isinstance(actor, ChatPolicy):  # a class of somebody's may be one
        check_limit(most, prices.agent, settings.agent)
    return _EvaluationSetup(settings, actor, prices, by_name=policy is None)


def _with_budget(setup: _EvaluationSetup, suite: Suite, run: Run | None) -> tuple[Policy, Services]:
    """Return agent and services under one limit in dollars, feedback models included; both without one if none is set."""
    actor, most, price = setup.actor, setup.settings.max_cost_usd, setup.prices.agent
    if most is None:
        return actor, Services()
    models = feedback_models(suite)
    prices = {model: setup.prices.feedback[name] for name, model in models.items()}
    charged = getattr(actor, "charged", None)
    payer = actor.name if charged is None else actor.model.name  # type: ignore[attr-defined]
    if price is not None:
        prices[payer] = price
    before = _spent_before(run, payer, models.values()) if run is not None else {}
    ledger = run.folder / "spent.json" if run is not None else None
    budget = Budget(SpendingLimits(usd=most), prices, ledger=ledger, before=before)
    if price is not None:
        actor = BudgetedPolicy(actor, budget) if charged is None else charged(budget)
    return actor, Services(charged=RunBudgets(dict.fromkeys(prices, budget) if models else None))


def _spent_before(run: Run, payer: str, models: Iterable[str]) -> Counts:
    """Return the calls and tokens of earlier parts of a run, some of which may have had no limit."""
    counts = recorded_counts(run.externals, models, PORT)
    for row in read_journal(run.log().path):
        used = {name: n for name, n in known_counts(row.get("usage", {})).items() if not name.startswith(PREFIX)}
        counts.setdefault(payer, Counter()).update(used)
    return counts


def _play(
    suite: Suite, plan: list[Planned], setup: _EvaluationSetup, run: Run | None, progress: Progress | None
) -> Result:
    """Play a plan: a pilot first where a chat model costs, under the budget; write log, results and cache if it is a run."""
    settings, pilot = setup.settings, 0
    fresh = run is not None and not run.log().path.exists()
    if (warn := getattr(setup.actor, "warn_if_environment_differs", None)) is not None:
        for entry in suite.entries:
            warn(entry_env(entry))
    if setup.prices.agent is not None or setup.prices.feedback:
        plan, pilot = pilot_first(suite, plan)
    actor, services = _with_budget(setup, suite, run)
    measures = Measures()
    with ExitStack() as stack:
        signs = stack.enter_context(SignsOfLife(None if settings.agent in BUILT_IN else setup.tell))
        actor = signs.policy(actor)
        agent = _agent_maker(setup)
        stage = stack.enter_context(Stage(settings.actors, agent, run.externals if run is not None else None))
        log = replace(run.log(), recording=stage.recording) if run is not None else None
        episodes = partial(
            signs.watched, partial(run_many, plan, actor, journal=log, services=stage.services(services))
        )
        if setup.tell is not None and setup.pilot and log is not None and 0 < pilot < len(plan):
            setup.tell(_estimate_from_pilot(suite, setup, plan[:pilot], episodes, progress))
        # A local engine's batch costs as one row. `run_many` refuses one that is no number.
        at_a_time = max(settings.concurrency, batch if isinstance(batch := getattr(actor, "batch", 1), int) else 1)
        results = stack.enter_context(closing(episodes(concurrency=at_a_time)))
        by_key, gave_up = _watch(suite, results, measures, stage.progress(progress))
    if run is not None and log is not None and (log.unfinished or len(by_key) < len(plan)):
        numbers = run.numbers(measures)  # with what earlier parts of the run spent and had to leave
    else:
        numbers = measures.plan_numbers(suite, by_key)
    outcome = replace(result_from(suite, settings, numbers, setup.prices), gave_up=gave_up)
    if run is not None:
        save_results(run, outcome.to_json())
        if fresh:  # what an earlier part of the run wrote is read, and its sums checked, before it is kept
            run.numbers_cache().keep(numbers, measures)
    return outcome


def _agent_maker(setup: _EvaluationSetup) -> Callable[[], Policy] | None:
    """Return a call that makes the agent in any process; None for one of this process: an engine, or one under a cost limit."""
    settings, actor = setup.settings, setup.actor
    if not setup.by_name or settings.max_cost_usd is not None or getattr(actor, "batch", 1) != 1:
        return None
    as_text = getattr(getattr(actor, "model", None), "tools_as_text", False)  # as its server was met
    return partial(make_agent, settings.agent, **settings.agent_options | ({"tools": "text"} if as_text else {}))


def _watch(
    suite: Suite, episodes: Episodes, measures: Measures, progress: Progress | None
) -> tuple[dict[str, EpisodeNumbers], bool]:
    """Play episodes to the end and return their numbers by key, and whether it stopped as 8 in a row had the same fault."""
    places = {key: (entry, cluster, trial) for key, entry, _, cluster, trial in suite.episodes()}
    by_key: dict[str, EpisodeNumbers] = {}
    wins, faults = 0, list[str]()
    latest: deque[str] = deque(maxlen=FAULTS_IN_A_ROW)  # causes without their numbers; "" of what is no fault
    for planned, result in episodes:
        by_key[planned.key] = RunEpisode(planned.key, *places[planned.key], result).numbers(measures)
        wins += by_key[planned.key].success
        faults += [result.fault] if result.status == "fault" else []
        latest.append(_COUNTS.sub("", result.fault) if result.status == "fault" else "")
        if progress is not None:
            more = f"{len(faults)} faults, the last: {faults[-1][:200]}" if faults else ""
            progress(len(by_key), len(places), wins, more)
        if len(latest) == FAULTS_IN_A_ROW and set(latest) == {latest[0]} != {""}:
            return by_key, True
    return by_key, False


def _estimate_from_pilot(
    suite: Suite, setup: _EvaluationSetup, pilot: Sequence[Planned], play: Callable[..., Episodes],
    progress: Progress | None,
) -> str:  # fmt: skip
    """Play a run's pilot, which its journal keeps, and return the estimate for all episodes."""
    places = {key: (entry, cluster, trial) for key, entry, _, cluster, trial in suite.episodes()}
    keys = {planned.key for planned in pilot}
    numbers: list[EpisodeNumbers] = []
    with closing(play(concurrency=min(setup.settings.concurrency, len(pilot)))) as episodes:
        for planned, result in episodes:
            if planned.key in keys:
                numbers.append(numbers_of(*places[planned.key], result))
                if progress is not None:
                    progress(len(numbers), len(places), sum(row.success for row in numbers), "pilot")
            if len(numbers) == len(keys):
                break
    costs = _costs(suite, numbers, setup.prices)[0]
    return estimate(suite, [*zip(numbers, costs, strict=True)], setup.settings.max_cost_usd)


def result_from(suite: Suite, settings: Settings, numbers: list[EpisodeNumbers], prices: RunPrices) -> Result:
    """Compute a result from the numbers of every planned episode, in the order of the suite, and the `prices` of tokens."""
    summaries = summarise(suite, numbers, *_costs(suite, numbers, prices))
    return Result(suite, settings, summaries, score_of(suite, summaries), all(row.complete for row in numbers))


def result_of_run(run: Run, measures: Measures | None = None) -> tuple[Result, list[EpisodeNumbers]]:
    """Return the result of a run as its journal has it now, and the numbers behind it."""
    numbers = run.numbers(measures)
    config = run.config
    return result_from(run.suite, config.settings(), numbers, config.prices), numbers


def _costs(suite: Suite, numbers: Sequence[EpisodeNumbers], prices: RunPrices) -> tuple[list[float | None], ...]:
    """Return the cost of each episode, and the part of it for feedback."""
    advisers = {entry.label: entry.feedback for entry in suite.entries}
    advice = [feedback_cost(row.usage, advisers[row.entry], prices.feedback) for row in numbers]
    return [_cost(row, prices.agent, more) for row, more in zip(numbers, advice, strict=True)], advice


def _cost(row: EpisodeNumbers, price: Price | None, feedback: float | None) -> float | None:
    """Return the cost of an episode, the agent and its feedback together; None without a price or a count of tokens."""
    if feedback is None or row.usage.get(UNCOUNTED):
        return None
    if price is not None:
        return cost_of(price, row.usage) + feedback
    return None if any(not name.startswith(PREFIX) for name in row.usage) else feedback


def make_agent(name: str, /, *, recording: Recording | None = None, **options: Any) -> Policy:
    """Return the policy of a name: built in, chat model, `module:Class` or a checkout's; UsageError for none, a wrong option.

    Args:
        name: `random`, `heuristic`, `solver` or `null`; a chat model as `openai:MODEL`, `openai:MODEL@URL` (any server of that
            format), `openai-text:MODEL@URL` or `anthropic:MODEL[@URL]`; or `module:Class` (the working directory is on the
            path); from a checkout `baseline:NAME`, `trained:RUN` or `hf:MODEL`.
        recording: where a chat model's replies are recorded, or replayed from. Others have no use for it.
        options: of a chat model those of `make_chat_model`; a class gets all as keyword arguments; built-in agents take none.

    Raises:
        UsageError: there is no such agent, an option is unknown, or a service's key is missing.
    """
    if name in BUILT_IN:
        if options:
            raise UsageError(f"agent {name}: unknown option {', '.join(sorted(options))}; it takes none")
        return NullPolicy() if name == "null" else CompanionPolicy(name)
    if is_chat_name(name):
        return ChatPolicy(make_chat_model(name, **options), name=name, recording=recording)
    return _own_agent(name, options)


def _own_agent(name: str, options: dict[str, Any]) -> Policy:
    """Make an agent from `module:Class`, or a name that only a checkout has; UsageError says which part is wrong."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    module, colon, attribute = name.partition(":")
    if colon and attribute and module in OF_A_CHECKOUT:
        target, option = OF_A_CHECKOUT[module]
        options = {option: attribute, **options} if option else options
        module, colon, attribute = target.format(attribute).partition(":")
    if (package := module.partition(".")[0]) in ("baselines", "trainers") and find_spec(package) is None:
        raise UsageError(f"agent {name!r} is of a checkout: run in its folder, where {package}/ is")
    if not colon or not attribute.isidentifier():
        hint = "" if colon else f" (a chat model has its provider before it: openai:{name})"
        every = ", ".join((*BUILT_IN, *FORMS))
        raise UsageError(f"agent {name!r} is unknown{hint}; the agents are {every}, or module:Class")
    try:
        policy: Policy = getattr(import_module(module), attribute)(**options)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"agent {name!r} cannot be made: {author_line(error) or error}") from error
    if not callable(getattr(policy, "act", None)) or not isinstance(getattr(policy, "name", None), str):
        raise UsageError(f"agent {name!r} is no Policy: it needs name, batch and act(requests)")
    return policy


class BudgetedPolicy:
    """A wrapper that charges a policy's replies to a budget and ends when it is spent, for policies that cannot pay by call."""

    def __init__(self, policy: Policy, budget: Budget) -> None:
        self.name, self.batch, self.traits = policy.name, policy.batch, traits_of(policy)
        self._policy, self._budget = policy, budget

    def begin(self, env: gym.Env[Any, Any]) -> "BudgetedPolicy":
        """Return this agent for one episode of `env`."""
        return BudgetedPolicy(self._policy.begin(env), self._budget)  # type: ignore[attr-defined]

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Ask the policy, and pay for its replies; a fault is paid for and raised, and BudgetSpent if nothing is left."""
        self._budget.begin(self.name)
        try:
            replies = self._policy.act(requests)
        except EnvFault as fault:
            self._budget.pay(self.name, fault.usage, failed=True)
            raise
        for reply in replies:
            self._budget.pay(self.name, reply.usage, failed=reply.usage.get("calls") == 0)  # a turn may need no model
        return replies
