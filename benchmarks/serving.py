"""The environment server beside OpenEnv's own, with one environment and 256 sessions: the server's CPU a turn, and its memory.

    python -m benchmarks.serving [--sessions N] [--turns N] [--out FILE]

Each server is a process of its own; clients play a turn in every session, in alternation between the servers. OpenEnv's runs
where its package is (extra `openenv`); without it its rows are left out. CPU is what the server's process spent.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import connect

ID, ACTION = "SearchQA", "<search>who built the old bridge</search>"
ARGUMENTS = {"max_generations": 60, "max_searches": 60}
TICKS = os.sysconf("SC_CLK_TCK")
OURS = (
    "from agent_envs.serving.server import EnvServer\n"
    f"server = EnvServer({{{ID!r}: {ARGUMENTS!r}}}, port=0)\n"
    "print(server.url, flush=True); server.serve_forever()"
)
THEIRS = (
    "import sys, uvicorn\nfrom agent_envs.integrations.openenv import create_app\n"
    f"app = create_app({ID!r}, max_concurrent_envs=4096, **{ARGUMENTS!r})\n"
    "print('http://127.0.0.1:18499', flush=True); uvicorn.run(app, port=18499, log_level='error')"
)


class Server:
    """A server in a process of its own."""

    def __init__(self, script: str) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        while self.url:
            try:
                httpx.get(f"{self.url}/health", timeout=5)
                break
            except httpx.TransportError:
                time.sleep(0.2)

    @property
    def cpu_seconds(self) -> float:
        """What the process has spent so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def megabytes(self) -> float:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def timed(server: Server, turns: int, call: Callable[[], Awaitable[Any]]) -> dict[str, float]:
    """Return CPU of the server and seconds for a turn of a call that takes many."""
    cpu, begin = server.cpu_seconds, time.monotonic()
    await call()
    seconds = time.monotonic() - begin
    return {"cpu_ms": 1000 * (server.cpu_seconds - cpu) / turns, "turns_a_second": turns / seconds}


async def alone(server: Server, sessions: int, turns: int) -> dict[str, Any]:
    """Play each session over a socket of its own, one turn a message, all at once."""
    before = server.megabytes
    address = f"{server.url.replace('http', 'ws')}/ws"
    sockets = []
    for number in range(sessions):
        sockets.append(await connect(address, proxy=None, ping_interval=None, compression=None, open_timeout=120))
        await sockets[-1].send(
            json.dumps({"type": "reset", "data": {"seed": number, "task": number % 64, "split": "train"}})
        )
        json.loads(await sockets[-1].recv())
    memory = server.megabytes - before
    message = json.dumps({"type": "step", "data": {"text": ACTION}})

    async def play(socket: Any) -> None:
        """Take the turns of one session."""
        for _ in range(turns):
            await socket.send(message)
            assert json.loads(await socket.recv())["type"] == "observation"

    row = await timed(server, sessions * turns, lambda: asyncio.gather(*map(play, sockets)))
    for socket in sockets:
        await socket.close()
    return {**row, "kb_a_session": 1024 * memory / sessions}


async def batches(server: Server, sessions: int, turns: int) -> dict[str, Any]:
    """Play all sessions by one message a turn."""
    async with httpx.AsyncClient(base_url=server.url, timeout=300) as client:
        rows = [{"seed": number, "task": number % 64, "split": "train"} for number in range(sessions)]
        before = server.megabytes
        starts = (await client.post("/reset_many", json={"rows": rows})).json()["turns"]
        memory = server.megabytes - before
        names = [turn["metadata"]["session"] for turn in starts]

        async def play() -> None:
            """Take the turns of all."""
            for index in range(turns):
                steps = [{"session": name, "index": index, "action": ACTION} for name in names]
                answer = (await client.post("/step_many", json={"steps": steps})).json()
                assert "error" not in answer["turns"][-1]

        return {**await timed(server, sessions * turns, play), "kb_a_session": 1024 * memory / sessions}


def main() -> None:
    """Measure both servers, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=256)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    args = parser.parse_args()
    servers = {"agent-envs": Server(OURS), "openenv": Server(THEIRS)}
    rows: list[dict[str, Any]] = []
    try:
        for _ in range(args.rounds):
            for name, server in servers.items():
                ways = (alone, batches) if name == "agent-envs" else (alone,)
                for way in ways if server.url else ():
                    figures = asyncio.run(way(server, args.sessions, args.turns))
                    rows.append(
                        {
                            "server": name,
                            "way": way.__name__,
                            **{key: round(value, 3) for key, value in figures.items()},
                        }
                    )
                    print(json.dumps(rows[-1]), flush=True)
    finally:
        for server in servers.values():
            server.process.terminate()
    if args.out:
        about = {
            "command": "python -m benchmarks.serving",
            "sessions": args.sessions,
            "turns": args.turns,
            "rows": rows,
        }
        args.out.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
