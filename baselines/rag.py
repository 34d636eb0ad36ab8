"""Retrieval-augmented generation searches once, with the question itself, and answers from what came (Lewis et al. 2020).

Top 3 passages (VEG, section 3.1; Search-R1) are the environment's `top_k`. Two turns: the search, which asks no model, and
the answer. On LegalSearch this is naive RAG: the search is the semantic one, and it reads extracts, as the tools show them.
Differs from Search-R1: passages stand before the question, not behind; where nothing can be searched it answers directly.
"""

from baselines.chat_agent import ChatAgent, TurnModel
from baselines.prompts import prompt, user
from baselines.view import EpisodeView


class RAG(ChatAgent):
    """An agent that searches once, then answers."""

    short = "rag"

    def turn(self, view: EpisodeView, model: TurnModel) -> str:
        """Return a search for the question; once one was made, or none may be, the answer from all documents."""
        if not view.searches and not view.must_answer:
            return view.search(view.question)
        slots = {"question": view.question, "documents": view.documents, "form": view.form}
        return view.answer(model.ask([user(prompt("rag", "turn", **slots))]))
