"""Chain of thought: the model reasons in steps before it answers, without retrieval (Wei et al. 2022, arXiv 2201.11903).

Differs from the paper: no worked examples, as VEG's and Search-R1's tables ask instruction-tuned models (their prompts are
not printed). The reasoning is kept in the action, so that transcripts show it.
"""

from baselines.chat_agent import TurnModel
from baselines.direct import Direct
from baselines.prompts import prompt, user
from baselines.view import EpisodeView


class ChainOfThought(Direct):
    """An agent that reasons, then answers."""

    short = "cot"
    prompts = "cot"

    def turn(self, view: EpisodeView, model: TurnModel) -> str:
        """Return the model's text before `<answer>` or `####` (all of it without them) in <think>, and its answer behind."""
        reply = model.ask([user(prompt(self.prompts, "turn", question=view.question, form=view.form))])
        reasoning = reply.partition("<answer>")[0].partition("####")[0].strip()
        answer = view.answer(reply)
        return f"<think>{reasoning}</think>\n{answer}" if reasoning else answer
