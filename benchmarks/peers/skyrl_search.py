"""SkyRL-gym's search environment is timed with an in-process stub for the search: steps per CPU-second as JSON."""

import json
import time

import skyrl_gym.tools.search as search_tool
from skyrl_gym.envs.search.env import SearchEnv, SearchEnvConfig

RESULT = {"result": [[{"document": {"contents": "t\n" + "word " * 70}, "score": 1.0}] * 3]}
TURNS = ["<think>t</think><search>where was the author of the book born</search>"] * 3 + ["<answer>Lisbon</answer>"]


def main() -> None:
    """Measure five windows and print the best."""
    search_tool.call_search_api = lambda *args, **kwargs: (RESULT, None)
    extras = {"reward_spec": {"ground_truth": {"target": ["Lisbon"]}}, "max_turns": 4}
    config = SearchEnvConfig()
    best = 0.0
    for _ in range(5):
        started, steps = time.process_time(), 0
        while time.process_time() - started < 1.0:
            env = SearchEnv(config, extras)
            env.init([{"role": "user", "content": "question?"}])
            for turn in TURNS:
                env.step(turn)
                steps += 1
        best = max(best, steps / (time.process_time() - started))
    print(json.dumps({"steps_per_cpu_second": best}))


if __name__ == "__main__":
    main()
