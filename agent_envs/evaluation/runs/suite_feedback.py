"""Feedback models are chosen and priced here: `--feedback`, and what it costs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.suites.suite import Feedback, Suite
from agent_envs.services.chat import make_chat_model
from agent_envs.services.chat.named import is_chat_name
from agent_envs.services.chat.prices import Price, PriceTable, cost_of
from agent_envs.services.chat.spending import Counts
from agent_envs.services.recording import read_answers
from agent_envs.wrappers.feedback_costs import feedback_usage
from agent_envs.wrappers.feedback_prompts import EPSILON, read_templates

NONE = "none"
MOST_LABEL = 400  # characters, of an entry


def feedback_named(
    names: str, epsilon: float | None, templates: str, options: Mapping[str, Any]
) -> tuple[Feedback | None, ...]:
    """Return what `--feedback` names: one, or several that are compared, `none` among them for none.

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

    def told(name: str) -> Feedback | None:
        if name == NONE:
            return None
        if name not in chats:
            return Feedback(model=name, epsilon=explored)
        shown = read_templates(templates)
        texts = shown.texts if templates else {}
        return Feedback(model=name, epsilon=explored, templates=shown.digest, texts=texts, options=dict(options))

    try:
        return tuple(told(part) for part in parts) or (None,)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise UsageError(f"--feedback {names}: {first['msg']}") from None


def with_feedback(suite: Suite, feedback: Sequence[Feedback | None]) -> Suite:
    """Return a suite whose every entry is played with one feedback: another suite, whose scores are its own."""
    if list(feedback) == [None]:
        return suite
    if len(feedback) > 1 or feedback[0] is None:
        raise UsageError("--suite takes one --feedback; play each in a run of its own, and compare the runs")
    told = feedback[0]
    longest = max(len(entry.label) for entry in suite.entries) + 1 + len(told.label)
    if longest > MOST_LABEL:
        raise UsageError(f"--feedback: labels of entries would have {longest} characters, and may have {MOST_LABEL}")
    entries = tuple(
        entry.model_copy(update={"feedback": told, "label": f"{entry.label} {told.label}"}) for entry in suite.entries
    )
    return suite.model_copy(update={"id": f"{suite.id[:31]}-feedback", "entries": entries})


def feedback_models(suite: Suite) -> dict[str, str]:
    """Return the chat models that give feedback in a suite: name in the suite -> name of the model."""
    told = {entry.feedback.model: entry.feedback.options for entry in suite.entries if entry.feedback is not None}
    return {name: make_chat_model(name, **options).name for name, options in told.items() if is_chat_name(name)}


def feedback_prices(suite: Suite, table: PriceTable) -> dict[str, Price]:
    """Return the prices of a suite's feedback models, by their names in the suite; of those that have one."""
    found = {name: table.price(name) for name in feedback_models(suite)}
    return {name: price for name, price in found.items() if price is not None}


def check_priced(suite: Suite, prices: Mapping[str, Price]) -> None:
    """Refuse a limit in dollars on a suite where a model that gives feedback has no price."""
    if missing := sorted(feedback_models(suite).keys() - prices.keys()):
        raise UsageError(
            f"--max-cost: no price is known for the feedback that --feedback {','.join(missing)} asks for; give a table with "
            "--prices FILE, as docs/veg.md shows one"
        )


def feedback_cost(usage: Mapping[str, int], feedback: Feedback | None, prices: Mapping[str, Price]) -> float | None:
    """Return US dollars for the feedback of an episode; None where it took tokens of a model without a price."""
    if feedback is None or not (part := feedback_usage(usage)):
        return 0.0
    price = prices.get(feedback.model)
    return None if price is None else cost_of(price, part)


def recorded_counts(path: Path, models: Iterable[str], prefix: str = "") -> Counts:
    """Return what the answers in a recording took, by the names of models that stand behind `prefix` in its ports."""
    counts: Counts = {name: Counter() for name in models}
    for row in read_answers(path) if path.exists() else ():
        for name, used in counts.items():
            if row["port"] == prefix + name or row["port"].startswith(f"{prefix}{name}#"):  # a digest of its settings
                used.update({"calls": 1, **row["response"].get("usage", {})})
    return counts
