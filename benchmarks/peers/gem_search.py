"""GEM's QA environment is timed with an in-process stub for its search, `--records` or not: steps per CPU-second as JSON."""

import json
import sys
import time

from datasets import Dataset
from gem.envs.qa_env import QaEnv
from gem.tools.search_tool import SearchTool
from gem.tools.tool_env_wrapper import ToolEnvWrapper
from records import PeerTurn

PASSAGE = "word " * 70
TURNS = ["<think>t</think><search>where was the author of the book born</search>"] * 3 + ["<answer>Lisbon</answer>"]


class StubTool(SearchTool):
    """The search tool without its HTTP call."""

    def _search(self, query: str) -> str:
        """Return three fixed passages, whatever the query."""
        return "".join(f"Doc {n}(Title: t) {PASSAGE}\n" for n in range(1, 4))


def main() -> None:
    """Measure five windows and print the best."""
    rows = [{"question": f"question {n}?", "answer": "Lisbon"} for n in range(256)]  # as many as our side has tasks
    env = ToolEnvWrapper(QaEnv(dataset=Dataset.from_list(rows)), tools=[StubTool(search_url="stub")], max_tool_uses=5)
    best, records = 0.0, "--records" in sys.argv
    for _ in range(5):
        started, steps = time.process_time(), 0
        while time.process_time() - started < 1.0:
            env.reset()
            turns: tuple[PeerTurn, ...] = ()
            for turn in TURNS:
                text, reward, terminated, truncated, info = env.step(turn)
                if records:
                    row = PeerTurn(len(turns) + 1, turn, text, reward, terminated or truncated, tuple(info.items()))
                    turns = (*turns, row)
                steps += 1
        best = max(best, steps / (time.process_time() - started))
    print(json.dumps({"steps_per_cpu_second": best}))


if __name__ == "__main__":
    main()
