"""The first episodes of a run with a model are its pilot: they tell about how many calls, tokens and dollars it takes."""

import math
from collections.abc import Sequence
from itertools import groupby

from agent_envs.evaluation.runs.measures import EpisodeNumbers
from agent_envs.evaluation.runs.run_folder import Prices, Settings
from agent_envs.evaluation.runs.suite_feedback import feedback_models
from agent_envs.evaluation.suites.suite import Suite
from agent_envs.rollout.run_log import Planned
from agent_envs.services.chat.named import is_chat_name
from agent_envs.wrappers.feedback_costs import PREFIX

EPISODES = 3  # where a suite has one entry; of several one each, and more where three are not reached so


def asks_a_model(suite: Suite, settings: Settings, prices: Prices) -> bool:
    """Return whether a chat model plays or gives feedback, as far as names and prices tell."""
    names = (settings.agent, str(settings.agent_options.get("model")))  # the second of an agent over a chat model
    return any(map(is_chat_name, names)) or prices.agent is not None or bool(feedback_models(suite))


def pilot_first(suite: Suite, plan: Sequence[Planned]) -> tuple[list[Planned], int]:
    """Return a plan with its pilot first, the first trial of the first tasks of each entry, and how many belong to it."""
    each = math.ceil(EPISODES / len(suite.entries))
    entries = {key: entry.label for key, entry, *_ in suite.episodes()}
    pilot = []
    for _, items in groupby(plan, key=lambda item: entries[item.key]):
        pilot += [item for item in items if item.trial == 0][:each]
    keys = {item.key for item in pilot}
    return [*pilot, *(item for item in plan if item.key not in keys)], len(pilot)


def estimate(suite: Suite, pilot: Sequence[tuple[EpisodeNumbers, float | None]], most_usd: float | None) -> str:
    """Return in words what a suite takes if its episodes are like those of the pilot, entry by entry.

    With each stands what it cost in US dollars, None where no price is known; `most_usd` is the run's limit.
    """
    sums = dict.fromkeys(("calls", "input", "output", "usd"), 0.0)
    for entry in suite.entries:
        rows = [(item.usage, cost) for item, cost in pilot if item.entry == entry.label and item.played]
        if not rows:
            return f"no estimate: no episode of the pilot came to its end in {entry.label}"
        for usage, cost in rows:
            used = {name: float(usage.get(name, 0) + usage.get(PREFIX + name, 0)) for name in sums}
            used["usd"] = math.nan if cost is None else cost
            sums = {name: sums[name] + used[name] * len(entry.tasks) * suite.trials / len(rows) for name in sums}
    price = "no price is known" if math.isnan(sums["usd"]) else f"{sums['usd']:.4f} USD"
    short = most_usd is not None and sums["usd"] > most_usd
    return (
        f"estimate from {len(pilot)} episodes, which count: {sums['calls']:,.0f} calls, {sums['input']:,.0f} tokens in, "
        f"{sums['output']:,.0f} out, {price} in all"
        + (f"; --max-cost {most_usd:g} ends the run before that" if short else "")
    )
