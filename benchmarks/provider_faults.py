"""Public reports of what providers and servers do, each acted by a small local server, with a right control beside it.

    python -m benchmarks.provider_faults [--rows NAME ...] [--against FOLDER] [--out FILE]

A row plays one episode with an agent behind a server that does what the report says, and compares what became of it with what
is expected; its control is the same episode with the same kind of server and a right answer, which has to be paid. `--against`
plays the rows with another checkout's `agent_envs`, too: before and after stand beside each other. Nothing outside this
machine is asked. benchmarks/results/provider_faults.json keeps the figures that docs/log.md has.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

if __package__:
    from benchmarks.provider_reports import REPORTS, Report, Script, reply, right_script
else:  # run as a file, with another checkout's agent_envs
    sys.path.append(str(Path(__file__).parent))
    from provider_reports import REPORTS, Report, Script, reply, right_script

RESULTS = Path(__file__).parent / "results" / "provider_faults.json"


@dataclass
class Ending:
    """What became of an episode: the agent's calls, faults, turns, success, and how it ended."""

    calls: int = 0
    faults: int = 0
    turns: int = 0
    success: bool = False
    outcome: str = ""
    resumed: int = 0  # the agent's calls when a run that ended in a fault was resumed

    def text(self) -> str:
        """Return it in a line."""
        more = f", {self.resumed} more at --resume" if self.resumed else ""
        return f"{self.calls} calls{more}, {self.faults} faults, {self.turns} turns, {self.outcome}"


@contextmanager
def served(script: Script, gold: str) -> Iterator[tuple[str, list[Any]]]:
    """Serve a script on a free port of this machine; yield the URL and the bodies that it was sent."""
    bodies: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        """Answers posts by the script, and lists one model."""

        def do_GET(self) -> None:  # noqa: N802 - the name is the library's
            self._send(200, {"data": [{"id": "m"}]})

        def do_POST(self) -> None:  # noqa: N802
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if body.get("max_tokens") == 1:  # asked before the run, whether tools reach the prompt: they do
                usage = {"prompt_tokens": len(json.dumps(body.get("tools", ""))), "completion_tokens": 1}
                return self._send(200, reply("x", usage=usage))
            bodies.append(body)
            return self._send(*script(body, len(bodies)))

        def _send(self, status: int, value: Any) -> None:
            data = json.dumps(value).replace("GOLD", gold).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", bodies
    finally:
        server.shutdown()
        server.server_close()


def play(report: Report, script: Script, service: Script | None) -> Ending:
    """Play a report's episode with a script behind the agent, and one behind its judge or user where it has one."""
    from agent_envs.evaluation.runs.evaluate import evaluate, resume
    from agent_envs.evaluation.runs.run_folder import Settings, open_run
    from agent_envs.evaluation.suites.plan import Choice, adhoc_suite

    gold = gold_of(report)
    with served(script, gold) as (url, bodies), served(service or script, gold) as (other, _):
        arguments = dict(report.arguments)
        if report.service is not None:
            arguments[report.asks] = f"openai:m@{other}"
        suite = adhoc_suite(Choice(report.env, arguments, split="test", limit=1))
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = Path(folder) / "run"
            result = evaluate(suite, Settings(f"{report.provider}:m@{url}", {"max_tokens": 99}), folder=run)
            [row] = open_run(run).rows()
            calls = len(bodies)
            if report.resumes:
                resume(run)
        [summary] = result.summaries
        turns = row.result.trajectory.turns
        [outcome] = summary.outcomes
        return Ending(calls, summary.faults, len(turns), summary.success.value == 1, outcome, len(bodies) - calls)


def gold_of(report: Report) -> str:
    """Return the gold answer of a report's task, "" where it has none."""
    import gymnasium as gym

    import agent_envs

    assert agent_envs.__version__
    env = gym.make(f"agent_envs/{report.env}-v0", **report.arguments)
    env.reset(seed=0, options={"task": 0, "split": "test"})
    return str((*env.unwrapped.episode.task.gold, "")[0])  # type: ignore[attr-defined]


def try_report(report: Report) -> dict[str, Any]:
    """Play a report and its control; return both, and whether each came out as it should."""
    if report.provider == "anthropic" and find_spec("anthropic") is None:
        return {"name": report.name, "verdict": "not tried: extra anthropic"}
    result = play(report, report.script, report.service)
    control = play(report, report.control or right_script(report), report.service and report.right_service)
    paid = "paid" if control.success else control.text()
    fits = all(getattr(result, name) == value for name, value in report.expected.items())
    return {
        "name": report.name, "thread": report.thread, "does": report.does, "expected": report.expected, "result": vars(result),
        "text": result.text(), "verdict": "right" if fits else "wrong", "control": paid,
    }  # fmt: skip


def without_pauses() -> None:
    """Leave out the pauses between attempts: what is counted is calls."""
    import importlib

    importlib.import_module("agent_envs.services.recording").FIRST_PAUSE_SECONDS = 0.0  # type: ignore[attr-defined]
    importlib.import_module("agent_envs.rollout.run_many").run_many.__kwdefaults__["pause_seconds"] = 0.0


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 1 where a row or a control did not come out as it should."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.provider_faults", description=str(__doc__).partition("\n")[0]
    )
    parser.add_argument("--rows", nargs="*", default=[report.name for report in REPORTS], help="names; default: all")
    parser.add_argument("--against", type=Path, help="another checkout, whose agent_envs plays the rows, too")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON, and no table")
    options = parser.parse_args(arguments)
    without_pauses()
    rows = [try_report(report) for report in REPORTS if report.name in options.rows]
    if options.json:
        print(json.dumps(rows))
        return 0
    before = played_by(options.against, options.rows) if options.against else {}
    print("| report | the server | expected | before | after | control |\n|---|---|---|---|---|---|")
    for row in rows:
        old = before.get(row["name"], {})
        expected = ", ".join(f"{name} {value}" for name, value in row.get("expected", {}).items())
        cells = (f"{row['name']} ({row.get('thread', '')})", row.get("does", ""), expected, _cell(old), _cell(row))
        print("| " + " | ".join([*cells, row.get("control", "")]) + " |")
    if options.out:
        text = json.dumps([row | {"before": before.get(row["name"], {}).get("text", "")} for row in rows], indent=1)
        options.out.write_text(text + "\n", encoding="utf-8")
    sound = [row for row in rows if row["verdict"] == "right" and row["control"] == "paid"]
    print(f"\n{len(sound)} of {len(rows)} right, their controls paid", end="")
    print(f"; before {sum(row['verdict'] == 'right' for row in before.values())}" if before else "")
    return int(len(sound) < len(rows))


def _cell(row: dict[str, Any]) -> str:
    """Return the verdict on a row, and what it came to; "" for no row."""
    return f"{row['verdict']}: {row.get('text', '')}" if row else ""


def played_by(folder: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """Play the rows with another checkout's `agent_envs`, in a process of its own; return them by name."""
    command = [sys.executable, str(Path(__file__)), "--json", "--rows", *names]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(folder)}, cwd=folder, check=True, capture_output=True, text=True
    )
    return {row["name"]: row for row in json.loads(done.stdout.splitlines()[-1])}


if __name__ == "__main__":
    sys.exit(main())
