"""An agent of one's own is evaluated and compared with a built-in one, task by task.

python examples/own_agent.py
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from agent_envs import Reply, Request


class OneSearch:
    """Searches for the question, then answers with the first name of the passages that the question does not have."""

    name, batch = "one-search", 1

    def act(self, requests: list[Request]) -> list[Reply]:
        """Return an action for each request: here always one, as `batch` is 1."""
        messages = requests[0].messages
        question = messages[0]["content"].rsplit("Question: ", 1)[-1]
        if requests[0].turn == 1:
            return [Reply(f"<search>{question}</search>")]
        names = re.findall(r"[A-Z][a-z]+(?: [A-Z][a-z]+)+", messages[-1]["content"])
        return [Reply(f"<answer>{next((name for name in names if name not in question), 'nobody')}</answer>")]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        runs = [f"{folder}/{name}" for name in ("own", "heuristic")]
        for words in (
            ["eval", "SearchQA", "--agent", "own_agent:OneSearch", "-n", "60", "--out", runs[0]],
            ["eval", "SearchQA", "--agent", "heuristic", "-n", "60", "--out", runs[1]],
            ["compare", *runs],
        ):
            subprocess.run([sys.executable, "-m", "agent_envs", *words], cwd=Path(__file__).parent, check=True)
