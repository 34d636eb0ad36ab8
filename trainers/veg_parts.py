"""Settings of verbal feedback say who gives it, how it is asked for, and what it may cost."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from agent_envs.base.errors import UsageError
from agent_envs.rollout.episode_runner import Planned
from agent_envs.services.chat import make_chat_model
from agent_envs.services.chat.named import is_chat_name
from agent_envs.wrappers.feedback_models import feedback_limits
from agent_envs.wrappers.feedback_prompts import read_templates
from trainers.costs import Costs
from trainers.settings import json_object


@dataclass(frozen=True)
class FeedbackSettings:
    """Verbal feedback before every turn.

    Attributes:
        epsilon: how often feedback is to explore.
        feedback: who gives it in training: `scripted:good`, `scripted:weak`, `scripted:misleading`, a chat model's name
            (`anthropic:MODEL`, `openai:MODEL@URL`), or `none`.
        test_feedback: who gives it where feedback is measured; "" for who gave it in training, or `scripted:good` after none.
        feedback_fade: steps over which the share of advised episodes falls from 1 to 0 in a line; 0: all of them are advised.
        templates: a folder with explore.md and exploit.md, whose texts the run keeps; "" for ours; of chat models.
        max_calls: calls of a chat model over the whole run, in each process; 0 for no limit.
        max_cost: US dollars for a chat model's feedback, as `max_calls`; 0 for no limit.
        prices: the path of a table of prices, "" for the one that comes with the package.
        feedback_options: of chat models, as a JSON object: temperature, max_tokens, top_p, reasoning_effort, extra,
            api_key_env.
    """

    ON_RESUME: ClassVar = ("max_calls", "max_cost")  # what a run that goes on may be given anew

    epsilon: float = 0.1
    feedback: str = "scripted:good"
    test_feedback: str = ""
    feedback_fade: int = 0
    templates: str = ""
    max_calls: int = 0
    max_cost: float = 0.0
    prices: str = ""
    feedback_options: str = "{}"

    def __post_init__(self) -> None:
        """Check them, and take the texts of templates in place of their folder: a run that goes on has the same.

        Raises:
            UsageError: one does not fit; the message names it.
        """
        if self.test_feedback == "none":
            raise UsageError("test_feedback='none': name who gives feedback; what there is without is measured anyway")
        if self.feedback_fade < 0 or (self.feedback_fade and self.feedback == "none"):
            raise UsageError(
                f"feedback_fade={self.feedback_fade}: steps >= 0, and feedback={self.feedback!r} to fade out"
            )
        feedback_limits(self.max_calls, self.max_cost)
        self._options()
        if self.templates and not self.templates.startswith("{"):
            object.__setattr__(self, "templates", json.dumps(read_templates(self.templates).texts))
        read_templates(self._texts())

    @property
    def tester(self) -> str:
        """The name of who gives feedback where it is measured: `test_feedback`, else the training's, scripted:good for none."""
        return self.test_feedback or ("scripted:good" if self.feedback == "none" else self.feedback)

    @property
    def chat_models(self) -> dict[str, str]:
        """The chat models that give feedback: their names as settings have them, and as services are told apart."""
        names = [name for name in (self.feedback, self.tester) if is_chat_name(name)]
        return {name: make_chat_model(name, **self._options()).name for name in names}

    def wrapper(self, feedback: str) -> dict[str, Any]:
        """Return the feedback wrapper of a source, as settings of wrappers have it."""
        names = ("epsilon", "max_calls", "max_cost", "prices")
        arguments = {"feedback": feedback, **{name: getattr(self, name) for name in names}, "templates": self._texts()}
        return {"VerbalFeedback": arguments | ({"options": self._options()} if is_chat_name(feedback) else {})}

    def spending(self) -> Costs:
        """Return the counter of feedback costs; a script costs nothing; UsageError where the table of prices is missing.

        Raises:
            UsageError: there is no such table of prices.
        """
        from agent_envs.services.chat.prices import load_prices

        names = set(self.chat_models.values())
        table = load_prices(Path(self.prices) if self.prices else None) if names else None
        prices = {name: table.price(name) if table else None for name in sorted(names)}
        return Costs(prices, feedback_limits(self.max_calls, self.max_cost))

    def summary(self) -> str:
        """Return a line for the screen about the feedback model and its templates; "" without one."""
        models = " and ".join(dict.fromkeys(self.chat_models.values()))
        return models and f"feedback by {models}, templates {read_templates(self._texts()).digest}"

    def _texts(self) -> Any:
        """Parse the templates as JSON; "" where there are none, UsageError for no JSON."""
        if not self.templates:
            return ""
        try:
            return json.loads(self.templates)
        except ValueError as error:
            raise UsageError(f"templates={self.templates!r:.80} is no JSON: {error}; give a folder") from None

    def _options(self) -> dict[str, Any]:
        """Parse the feedback's options, a JSON object."""
        return json_object(self.feedback_options, "feedback_options")


def advise(plan: Sequence[Planned], group_size: int, count: int, key: str) -> list[Planned]:
    """Return a plan in which `count` of the groups keep their feedback; a draw by `key` chooses them, since order matters.

    Minibatches and processes take groups as they come, so the first must not be the advised ones at every step.
    """
    advised = random.Random(key).sample(range(len(plan) // group_size), count)
    return [
        item if place // group_size in advised else replace(item, spec=_without_feedback(item.spec))
        for place, item in enumerate(plan)
    ]


@lru_cache(maxsize=8)
def _without_feedback(spec: str) -> str:
    """Return an environment's spec, as JSON, without the wrapper that gives feedback."""
    table = json.loads(spec)
    rows = [row for row in table["additional_wrappers"] if row["name"] != "VerbalFeedback"]
    return json.dumps(table | {"additional_wrappers": rows})
