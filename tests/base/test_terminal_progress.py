"""A progress line says what its percentage is of: the episodes that are finished, not the plan."""

import io
import sys

import pytest

from agent_envs.base.terminal import progress_bar


class Terminal(io.StringIO):
    """A text stream that says it is a terminal, or that it is none."""

    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


@pytest.mark.parametrize(
    ("terminal", "words"),
    [(True, "SearchQA: 67 % of 3 solved; 1 faults"), (False, "SearchQA: 3/3, of these 66.7 % solved; 1 faults")],
)
def test_the_percentage_is_said_to_be_of_what_is_finished(monkeypatch, terminal, words):
    monkeypatch.setattr(sys, "stderr", Terminal(terminal))
    monkeypatch.setenv("COLUMNS", "120")
    with progress_bar("SearchQA") as tell:
        tell(3, 3, 2, "1 faults")
    assert words in sys.stderr.getvalue()
