"""Baselines with the scripted reader in place of a chat model, by names that `agent-envs eval --agent` takes.

The reader is a test double: it reads generated questions by rule, and says the same to whatever else it is shown. Rows of it on
a board say that the baselines' procedures work, and nothing about language models.
"""

from baselines.rag import RAG
from baselines.scripted_reader import ScriptedReader
from baselines.tag_agent import TagAgent


class SearchesOnce(RAG):
    """Naive RAG with the scripted reader."""

    def __init__(self) -> None:
        """Take the reader, which does not err."""
        super().__init__(ScriptedReader())


class SearchesOn(TagAgent):
    """The agent of tags with the scripted reader: it searches until it knows."""

    def __init__(self) -> None:
        """Take the reader, which does not err."""
        super().__init__(ScriptedReader())
