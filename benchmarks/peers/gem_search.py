"""GEM's QA environment is timed with its search answered by an in-process stub: steps per CPU-second as JSON."""

import json
import time

from datasets import Dataset
from gem.envs.qa_env import QaEnv
from gem.tools.search_tool import SearchTool
from gem.tools.tool_env_wrapper import ToolEnvWrapper

PASSAGE = "word " * 70
TURNS = ["<think>t</think><search>where was the author of the book born</search>"] * 3 + ["<answer>Lisbon</answer>"]


class StubTool(SearchTool):
    """The search tool without its HTTP call."""

    def _search(self, query: str) -> str:
        return "".join(f"Doc {n}(Title: t) {PASSAGE}\n" for n in range(1, 4))


def main() -> None:
    """Measure five windows and print the best."""
    rows = [{"question": f"question {n}?", "answer": "Lisbon"} for n in range(64)]
    env = ToolEnvWrapper(QaEnv(dataset=Dataset.from_list(rows)), tools=[StubTool(search_url="stub")], max_tool_uses=5)
    best = 0.0
    for _ in range(5):
        started, steps = time.process_time(), 0
        while time.process_time() - started < 1.0:
            env.reset()
            for turn in TURNS:
                env.step(turn)
                steps += 1
        best = max(best, steps / (time.process_time() - started))
    print(json.dumps({"steps_per_cpu_second": best}))


if __name__ == "__main__":
    main()
