"""`vf-eval` plays what `agent-envs export --hub verifiers` wrote, with a model that is a script behind HTTP.

    python -m tests.integrations.vf_eval PACKAGE

PACKAGE is installed here. The script searches once and answers wrongly; test-integrations runs it.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TURNS = ("<search>Who lives there?</search>", "<answer>nobody at all</answer>")


class Model(BaseHTTPRequestHandler):
    """Streams the turn that is next in the conversation, as a chat completion."""

    def do_POST(self):
        messages = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"]
        text = TURNS[sum(message["role"] == "assistant" for message in messages)]
        about = {"id": "1", "created": 0, "model": "script", "object": "chat.completion.chunk"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        delta = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
        stop = {"index": 0, "delta": {}, "finish_reason": "stop"}
        rows = [about | {"choices": [delta]}, about | {"choices": [stop], "usage": usage}]
        body = "".join(f"data: {json.dumps(row)}\n\n" for row in rows) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args):
        """Say nothing."""


def evaluated(package):
    """Return the traces of two episodes of a package."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server, tempfile.TemporaryDirectory() as folder:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        command = [
            "vf-eval", package, "-m", "script", "-n", "2", "--env.taskset.n", "2", "--env.player.harness.id", "null",
            "--env.player.runtime.type", "subprocess", "--no-push", "--client.base-url", url, "--client.api-key-var", "KEY",
        ]  # fmt: skip
        subprocess.run(
            command, cwd=folder, env={**os.environ, "KEY": "none"}, check=True, stdout=sys.stderr, timeout=300
        )
        (found,) = Path(folder).rglob("traces.jsonl")
        server.shutdown()
        return [json.loads(line) for line in found.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    traces = evaluated(sys.argv[1])
    assert len(traces) == 2, traces
    text = json.dumps(traces)
    assert text.count('"end": "terminated"') == 2 and text.count('"rewards": [0.0, 0.0]') == 2, text[:2000]
    print("vf-eval played 2 episodes")
