"""Record the rows of ids whose scores moved on purpose: `python -m tests.stored Tau2Retail-v0 ...`.

CHANGELOG says that they moved. Rows of other ids stay as they were written: they show that old bytes are read.
"""

import argparse
import gzip
import hashlib
import json
from typing import Any

import gymnasium as gym

from agent_envs import snapshot, solve
from tests.test_stored import ROWS, STACKS, STORED


def recorded(env_id: str, stack: str) -> dict[str, Any]:
    """Play the solver's actions on the first test task, and store the moment in the middle and what came after it."""
    env = STACKS[stack](gym.make(env_id))
    env.reset(seed=0, options={"split": "test", "task": 0})
    actions = solve(env)
    middle = len(actions) // 2
    for action in actions[:middle]:
        env.step(action)
    data, played, info = snapshot(env).to_bytes().decode(), [], {}
    for action in actions[middle:]:
        observation, *outcome, info = env.step(action)
        played.append([hashlib.sha256(observation.encode()).hexdigest()[:16], *outcome])
    row = {"id": env_id, "stack": stack, "spec_digest": env.unwrapped.spec_digest, "snapshot": data}
    return row | {"actions": actions[middle:], "played": played, "success": info["success"]}


parser = argparse.ArgumentParser(prog="python -m tests.stored", description=__doc__)
parser.add_argument("ids", nargs="+", metavar="ID")
wanted = {f"agent_envs/{name}" for name in parser.parse_args().ids}
if strangers := wanted - {row["id"] for row in ROWS}:
    parser.error(f"no stored row of {', '.join(sorted(strangers))}")
rows = [recorded(row["id"], row["stack"]) if row["id"] in wanted else row for row in ROWS]
text = "".join(json.dumps(row) + "\n" for row in rows)
(STORED / "snapshots.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
