"""A paid model's price for feedback is estimated by the tokens of its calls, counted on a trained policy's episodes.

The policy plays the test episodes that its run was measured on, with the scripted feedback that it was measured with. At each
of its messages the prompt is built that a chat model would have been sent at that moment, and the message itself stands for
the reply. Tokens are characters by four, and nothing is taken from a cache.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs.services.chat.prices import cost_of, load_prices
from agent_envs.wrappers import VerbalFeedback
from agent_envs.wrappers.feedback_models import FeedbackModel, Moment, feedback_usage
from agent_envs.wrappers.feedback_prompts import read_templates

CHARACTERS = 4  # a token, about, of English text
PRICED = "claude-sonnet-4"
FORMULA = "calls_an_episode x (input_tokens_a_call x input_usd + output_tokens_a_call x output_usd) / 1e6"
WHAT = (
    "the test episodes that the run was measured on, played again by the trained policy with scripted:good; input: the "
    "prompts that a chat model would have been sent at its messages; output: these messages (a chat model may say more); "
    f"{CHARACTERS} characters a token, nothing from a cache"
)


class Priced:
    """A feedback model that repeats another's words and counts the tokens that a chat model would take for them."""

    def __init__(self, voice: FeedbackModel) -> None:
        """Count the words of `voice`."""
        self.name, self.service, self.templates, self.identity = (
            voice.name,
            voice.service,
            voice.templates,
            voice.identity,
        )
        self._voice = voice

    def speak(self, moment: Moment) -> tuple[str, dict[str, int]]:
        """Return the wrapped voice's words, and the usage that a chat model would have had."""
        text, _ = self._voice.speak(moment)
        prompt = read_templates("").messages(moment.mode, moment.talk, moment.tools, moment.prefill)
        sent = sum(len(message["content"]) for message in prompt)
        return text, {"calls": 1, "input": -(-sent // CHARACTERS), "output": -(-len(text) // CHARACTERS)}


class PricedFeedback(VerbalFeedback):
    """Verbal feedback whose usage is that of a chat model in the place of the script."""

    def __init__(self, env: gym.Env[Any, Any], **arguments: Any) -> None:
        """Wrap `env`; the arguments are those of VerbalFeedback."""
        super().__init__(env, **arguments)
        self.model = Priced(self.model)


def price_of(folder: Path) -> dict[str, Any]:
    """Return calls and tokens an episode of a trained policy under a paid feedback model, and US dollars by a formula."""
    from benchmarks.veg_episodes import measured_plan, run_settings
    from trainers.trained_agent import TrainedAgent

    settings = run_settings(folder)
    rows = [
        (name.replace("VerbalFeedback", f"{__name__}:PricedFeedback"), arguments)
        for row in settings.stack("scripted:good")
        for name, arguments in row.items()
    ]
    plan = measured_plan(settings, rows, settings.evaluation.test_tasks, "test")
    results = list(TrainedAgent(str(folder)).play(plan).values())
    used = Counter[str]()
    for result in results:
        used.update(feedback_usage(result.usage))
    price = load_prices(None).price(PRICED)
    assert price is not None
    return {
        "what": WHAT,
        "episodes": len(results),
        "success": round(sum(result.success for result in results) / len(results), 4),
        "calls_an_episode": round(used["calls"] / len(results), 4),
        "input_tokens_a_call": round(used["input"] / used["calls"], 1),
        "output_tokens_a_call": round(used["output"] / used["calls"], 1),
        "formula": FORMULA,
        "model": PRICED,
        "input_usd": price.input,
        "output_usd": price.output,
        "usd_an_episode": round(cost_of(price, used) / len(results), 6),
    }
