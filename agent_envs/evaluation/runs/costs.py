"""The cost of a run: the prices of feedback models, which `--feedback` names, and the estimate that a pilot gives.

The first episodes of a run with a model are its pilot: they tell about how many calls, tokens and dollars it takes.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.runs.measures import EpisodeNumbers
from agent_envs.evaluation.runs.run_folder import RunPrices, Settings
from agent_envs.evaluation.suites.suite import Feedback, Suite
from agent_envs.rollout.episode_runner import Planned
from agent_envs.services.chat import make_chat_model
from agent_envs.services.chat.model import UNCOUNTED, known_counts
from agent_envs.services.chat.named import is_chat_name
from agent_envs.services.chat.prices import Price, PriceTable, cost_of, load_prices
from agent_envs.services.chat.spending import Counts
from agent_envs.services.recording import read_answers
from agent_envs.wrappers.feedback_models import PREFIX, feedback_usage
from agent_envs.wrappers.feedback_prompts import EPSILON, read_templates

NONE = "none"
MOST_LABEL = 400  # characters, of an entry


EPISODES = 3  # where a suite has one entry; of several one each, and more where three are not reached so


def parse_feedback(
    names: str, epsilon: float | None, templates: str, options: Mapping[str, Any]
) -> tuple[Feedback | None, ...]:
    """Return the feedback that `--feedback` names, None for `none`: one, several to compare, or (None,) without a name.

    `epsilon` is how often it is to explore, None for the paper's default. Of chat models are `templates`, a folder with
    explore.md and exploit.md, "" for ours, and `options`.

    Raises:
        UsageError: the same name twice, templates that cannot be read, or settings that nothing here takes.
    """
    parts = [part.strip() for part in names.split(",") if part.strip()]
    chats = [part for part in parts if is_chat_name(part)]
    if len(set(parts)) < len(parts):
        raise UsageError(f"--feedback {names}: each one once")
    if (templates or options) and not chats:
        raise UsageError("--feedback-templates and --feedback-arg are for a chat model that --feedback names")
    explored = EPSILON if epsilon is None else epsilon

    def feedback_of(name: str) -> Feedback | None:
        """Return the feedback settings of a source: None for `none`; prompt texts only for a chat model."""
        if name == NONE:
            return None
        if name not in chats:
            return Feedback(model=name, epsilon=explored)
        template_set = read_templates(templates)
        texts = template_set.texts if templates else {}
        return Feedback(model=name, epsilon=explored, templates=template_set.digest, texts=texts, options=dict(options))

    try:
        return tuple(feedback_of(part) for part in parts) or (None,)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise UsageError(f"--feedback {names}: {first['msg']}") from None


def with_feedback(suite: Suite, feedback: Sequence[Feedback | None]) -> Suite:
    """Return a suite with one feedback in every entry, another suite; the same one without feedback, UsageError for several."""
    if list(feedback) == [None]:
        return suite
    if len(feedback) > 1 or feedback[0] is None:
        raise UsageError("--suite takes one --feedback; play each in a run of its own, and compare the runs")
    advice = feedback[0]
    longest = max(len(entry.label) for entry in suite.entries) + 1 + len(advice.label)
    if longest > MOST_LABEL:
        raise UsageError(f"--feedback: labels of entries would have {longest} characters, and may have {MOST_LABEL}")
    entries = tuple(
        entry.model_copy(update={"feedback": advice, "label": f"{entry.label} {advice.label}"})
        for entry in suite.entries
    )
    return suite.model_copy(update={"id": f"{suite.id[:31]}-feedback", "entries": entries})


def feedback_models(suite: Suite) -> dict[str, str]:
    """Return the chat models that give feedback in a suite: name in the suite -> name of the model."""
    advisers = {entry.feedback.model: entry.feedback.options for entry in suite.entries if entry.feedback is not None}
    return {name: make_chat_model(name, **options).name for name, options in advisers.items() if is_chat_name(name)}


def feedback_prices(suite: Suite, table: PriceTable) -> dict[str, Price]:
    """Return the prices of a suite's feedback models, by their names in the suite; of those that have one."""
    prices = {name: table.price(name) for name in feedback_models(suite)}
    return {name: price for name, price in prices.items() if price is not None}


def prices_of(suite: Suite, settings: Settings) -> RunPrices:
    """Return the prices that a table gives for a suite's models and its agent."""
    table = load_prices(Path(settings.prices) if settings.prices else None)
    model = settings.agent_options.get("model")  # of an agent over a chat model
    price = table.price(settings.agent) or (table.price(model) if isinstance(model, str) else None)
    return RunPrices(price, feedback_prices(suite, table), table.date)


def check_priced(suite: Suite, prices: Mapping[str, Price]) -> None:
    """Raise UsageError where a model that gives feedback in a suite has no price, as a limit in dollars cannot hold."""
    if missing := sorted(feedback_models(suite).keys() - prices.keys()):
        raise UsageError(
            f"--max-cost: no price is known for the feedback that --feedback {','.join(missing)} asks for; give a table with "
            "--prices FILE, as docs/veg.md shows one"
        )


def feedback_cost(usage: Mapping[str, int], feedback: Feedback | None, prices: Mapping[str, Price]) -> float | None:
    """Return US dollars for an episode's feedback, 0.0 where it took none; None without a price or a count of tokens."""
    if feedback is None or not (part := feedback_usage(usage)):
        return 0.0
    price = prices.get(feedback.model)
    return None if price is None or part.get(UNCOUNTED) else cost_of(price, part)


def recorded_counts(path: Path, models: Iterable[str], prefix: str = "") -> Counts:
    """Count the calls and tokens of a recording's answers, by the names of models that stand behind `prefix` in its ports."""
    counts: Counts = {name: Counter() for name in models}
    for row in read_answers(path) if path.exists() else ():
        for name, used in counts.items():
            if row["port"] == prefix + name or row["port"].startswith(f"{prefix}{name}#"):  # a digest of its settings
                used.update({"calls": 1, **known_counts(row["response"].get("usage", {}))})
    return counts


def uses_chat_model(suite: Suite, settings: Settings, prices: RunPrices) -> bool:
    """Return whether a chat model plays or gives feedback, as far as names and prices tell."""
    names = (settings.agent, str(settings.agent_options.get("model")))  # the second of an agent over a chat model
    return any(map(is_chat_name, names)) or prices.agent is not None or bool(feedback_models(suite))


def pilot_first(suite: Suite, plan: Sequence[Planned]) -> tuple[list[Planned], int]:
    """Return a plan with its pilot first, the first trial of the first tasks of each entry, and how many belong to it."""
    each = math.ceil(EPISODES / len(suite.entries))
    entries = {key: entry.label for key, entry, *_ in suite.episodes()}
    pilot = []
    for _, group in groupby(plan, key=lambda planned: entries[planned.key]):
        pilot += [planned for planned in group if planned.trial == 0][:each]
    keys = {planned.key for planned in pilot}
    return [*pilot, *(planned for planned in plan if planned.key not in keys)], len(pilot)


def estimate(suite: Suite, pilot: Sequence[tuple[EpisodeNumbers, float | None]], most_usd: float | None) -> str:
    """Describe the cost and time of a suite if its episodes are like the pilot's; no estimate if an entry has none.

    With each stands what it cost in US dollars, None where no price is known; `most_usd` is the run's limit.
    """
    sums = dict.fromkeys(("calls", "input", "output", "usd"), 0.0)
    for entry in suite.entries:
        rows = [(item.usage, cost) for item, cost in pilot if item.entry == entry.label and item.complete]
        if not rows:
            return f"no estimate: no episode of the pilot came to its end in {entry.label}"
        for usage, cost in rows:
            used = {name: float(usage.get(name, 0) + usage.get(PREFIX + name, 0)) for name in sums}
            if usage.get(UNCOUNTED) or usage.get(PREFIX + UNCOUNTED):
                used |= {"input": math.nan, "output": math.nan}
            used["usd"] = math.nan if cost is None else cost
            sums = {name: sums[name] + used[name] * len(entry.tasks) * suite.trials / len(rows) for name in sums}
    price = "no price is known" if math.isnan(sums["usd"]) else f"{sums['usd']:.4f} USD"
    short = most_usd is not None and sums["usd"] > most_usd
    return (
        f"estimate from {len(pilot)} episodes, which count: {sums['calls']:,.0f} calls, {sums['input']:,.0f} tokens in, "
        f"{sums['output']:,.0f} out, {price} in all"
        + (f"; --max-cost {most_usd:g} ends the run before that" if short else "")
    )
