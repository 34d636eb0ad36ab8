"""SkyRL-gym's search environment is timed with a stub for the search, `--records` or not: steps per CPU-second as JSON."""

import json
import sys
import time

import skyrl_gym.tools.search as search_tool
from records import PeerTurn
from skyrl_gym.envs.search.env import SearchEnv, SearchEnvConfig

RESULT = {"result": [[{"document": {"contents": "t\n" + "word " * 70}, "score": 1.0}] * 3]}
TURNS = ["<think>t</think><search>where was the author of the book born</search>"] * 3 + ["<answer>Lisbon</answer>"]


def main() -> None:
    """Measure five windows and print the best."""
    search_tool.call_search_api = lambda *args, **kwargs: (RESULT, None)
    extras = {"reward_spec": {"ground_truth": {"target": ["Lisbon"]}}, "max_turns": 4}
    config = SearchEnvConfig()
    best, records = 0.0, "--records" in sys.argv
    for _ in range(5):
        started, steps = time.process_time(), 0
        while time.process_time() - started < 1.0:
            env = SearchEnv(config, extras)
            env.init([{"role": "user", "content": "question?"}])
            turns: tuple[PeerTurn, ...] = ()
            for turn in TURNS:
                out = env.step(turn)
                if records:
                    info = tuple(out["metadata"].items())
                    turns = (
                        *turns,
                        PeerTurn(len(turns) + 1, turn, out["observations"], out["reward"], out["done"], info),
                    )
                steps += 1
        best = max(best, steps / (time.process_time() - started))
    print(json.dumps({"steps_per_cpu_second": best}))


if __name__ == "__main__":
    main()
