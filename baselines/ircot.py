"""IRCoT: sentences of reasoning and retrievals take turns, then a reader answers (Trivedi et al. 2023, arXiv 2212.10509).

The first search is the question's; each further one is the newest sentence of reasoning. It ends where a sentence says
"answer is", or after `followups` sentences. 1 follow-up is VEG's limit of 2 turns (section 3.1, the first search not
counted); FlashRAG's default is 2 iterations; the paper's code allows 10 sentences.

Differs from the paper's code: passages are not capped at 15, because the environment caps each observation; no worked
examples; the reader sees the sentences too. Differs from FlashRAG: passages stay in the order in which they came, not sorted
by score.
"""

import re
from typing import Any

from baselines.chat_agent import ChatAgent, TurnModel
from baselines.prompts import prompt, user
from baselines.view import EpisodeView, joined

_ENDS = re.compile(r"\banswer is:?\s*\S", re.I)
_SENTENCE = re.compile(r".+?[.?!](?=\s|\Z)", re.S)
_THOUGHT = re.compile(r"<think>(.*?)</think>", re.S)


class IRCoT(ChatAgent):
    """An agent that interleaves retrieval with chain of thought."""

    short = "ircot"

    def __init__(self, model: Any = "", *, followups: int = 1, **options: Any) -> None:
        """Take the number of searches after the first one."""
        super().__init__(model, **options)
        self.followups = followups

    def turn(self, view: EpisodeView, model: TurnModel) -> str:
        """Return a search (the question, then each new thought) till searches end or a thought concludes; then the answer."""
        if not view.searches and not view.must_answer:
            return view.search(view.question)
        thoughts = [thought.strip() for text in view.actions for thought in _THOUGHT.findall(text)]
        if not view.must_answer and view.searches <= self.followups:
            sentence = self._next(view, thoughts, model)
            if sentence and not _ENDS.search(sentence):
                return view.search(sentence, sentence)
            thoughts.append(sentence)
        slots = {
            "question": view.question,
            "documents": view.documents,
            "form": view.form,
            "thoughts": joined(thoughts),
        }
        return view.answer(model.ask([user(prompt("ircot", "reader", **slots))]))

    def _next(self, view: EpisodeView, thoughts: list[str], model: TurnModel) -> str:
        """Return the next thought: the reply's first sentence; the whole reply if it has none or says `answer is`."""
        slots = {"question": view.question, "documents": view.documents, "thoughts": joined(thoughts)}
        reply = " ".join(model.ask([user(prompt("ircot", "next", **slots))]).split())
        first = _SENTENCE.match(reply)
        return first[0] if first and not _ENDS.search(reply) else reply
