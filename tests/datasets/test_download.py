"""Downloads against servers on this machine: resuming, hashes, caps, redirects, and a hub of our own."""

import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from agent_envs.base.errors import EnvFault, MissingExtra, UsageError
from agent_envs.datasets.catalogue import CORPORA, DATASETS
from agent_envs.datasets.download import fetch_hub, fetch_url, get
from agent_envs.datasets.listing import data_rows
from tests.needs import needs

BODY = bytes(range(256)) * 2_000
SHA256 = hashlib.sha256(BODY).hexdigest()
CUT = 200_000


class Server(ThreadingHTTPServer):
    """Serves `BODY` in the manner that the path names, and remembers each request's Range and the bytes it sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []
        self.sent: list[int] = []
        self.etag = '"one"'
        self.hub: dict[str, bytes] = {}
        self.tokens: list[str] = []

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.serve_hub()

    def do_GET(self) -> None:
        if self.path.startswith("/datasets/"):
            return self.serve_hub()
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        kind = self.path.strip("/")
        if kind in ("404", "503"):
            return self.answer(int(kind), b"")
        if kind == "redirect":
            return self.answer(302, b"", {"Location": self.server.url("/good")})
        if kind == "endless":
            return self.answer(200, BODY, {}, length=None)
        resumable = kind != "norange"
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and resumable else 0
        if self.headers.get("If-Range") not in (None, self.server.etag):
            start = 0
        headers = {"ETag": self.server.etag if kind != "weak" else 'W/"one"'} if resumable else {}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(BODY) - 1}/{len(BODY)}"
        first = len(self.server.asked) == 1
        cut = CUT if kind == "always" or (kind in ("cut", "norange", "weak") and first) else len(BODY)
        self.answer(206 if start else 200, BODY[start : start + cut], headers, length=len(BODY) - start)

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None, length: int | None = 0) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)
        self.server.sent.append(len(body))

    def serve_hub(self) -> None:
        self.server.tokens += self.headers.get_all("Authorization", [])
        body = self.server.hub.get(self.path)
        if body is None:
            return self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        headers = {"ETag": f'"{hashlib.sha256(body).hexdigest()}"', "X-Repo-Commit": "c" * 40}
        self.answer(200, b"" if self.command == "HEAD" else body, headers, length=len(body))


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def fetch(server: Server, path: str, target: Path, sha256: str | None = SHA256, **more: int) -> Path:
    return fetch_url(server.url(path), target, sha256, backoff_seconds=0.001, **more)


def leftovers(target: Path) -> list[str]:
    return sorted(file.name for file in target.parent.iterdir() if file != target)


def test_good_transfer_and_no_second_one(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.bin"
    seen: list[tuple[int, int]] = []
    found = fetch_url(server.url("/good"), target, SHA256, lambda count, total: seen.append((count, total)))
    assert found == target
    assert target.read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    assert seen == sorted(seen)
    assert leftovers(target) == []
    fetch(server, "/good", target)
    assert server.asked == [None]


def test_a_damaged_file_is_replaced(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "file.bin"
    target.write_bytes(b"old")
    fetch(server, "/good", target)
    assert target.read_bytes() == BODY


def test_wrong_hash_removes_the_file_and_names_both(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "file.bin"
    with pytest.raises(EnvFault) as caught:
        fetch(server, "/good", target, "0" * 64)
    assert SHA256 in caught.value.cause
    assert "0" * 64 in caught.value.cause
    assert not caught.value.retryable
    assert list(tmp_path.iterdir()) == []


def test_a_cut_transfer_goes_on_where_it_stopped(server: Server, tmp_path: Path) -> None:
    target = fetch(server, "/cut", tmp_path / "file.bin")
    assert target.read_bytes() == BODY
    assert server.asked == [None, f"bytes={CUT}-"]
    assert server.sent == [CUT, len(BODY) - CUT]
    assert leftovers(target) == []


def test_the_next_call_resumes_what_a_failed_one_left(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "file.bin"
    part = tmp_path / "file.bin.part"
    server.asked.append("an earlier request, so that none is the first")
    part.write_bytes(BODY[:CUT])
    note = {"url": server.url("/good"), "validator": server.etag, "total": len(BODY)}
    (tmp_path / "file.bin.part.json").write_text(json.dumps(note))
    fetch(server, "/good", target)
    assert target.read_bytes() == BODY
    assert server.asked[1:] == [f"bytes={CUT}-"]
    assert leftovers(target) == []


def test_a_refusal_keeps_what_was_transferred_before(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "file.bin.part"
    part.write_bytes(BODY[:CUT])
    note = {"url": server.url("/404"), "validator": server.etag, "total": len(BODY)}
    (tmp_path / "file.bin.part.json").write_text(json.dumps(note))
    with pytest.raises(EnvFault, match="the server answered 404"):
        fetch(server, "/404", tmp_path / "file.bin")
    assert part.read_bytes() == BODY[:CUT]


def test_a_complete_part_is_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(BODY)
    note = {"url": server.url("/good"), "validator": server.etag, "total": len(BODY)}
    (tmp_path / "file.bin.part.json").write_text(json.dumps(note))
    assert fetch(server, "/good", tmp_path / "file.bin").read_bytes() == BODY
    assert server.asked == []


@pytest.mark.parametrize("change", ["validator", "url", "torn"])
def test_a_part_of_something_else_is_not_resumed(server: Server, tmp_path: Path, change: str) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"x" * CUT)
    note = {"url": server.url("/good"), "validator": server.etag, "total": len(BODY)} | {change: '"two"'}
    (tmp_path / "file.bin.part.json").write_text("{" if change == "torn" else json.dumps(note))
    assert fetch(server, "/good", tmp_path / "file.bin").read_bytes() == BODY
    assert server.sent == [len(BODY)]


@pytest.mark.parametrize("path", ["/norange", "/weak"])
def test_without_ranges_or_a_strong_validator_it_starts_again(server: Server, tmp_path: Path, path: str) -> None:
    target = fetch(server, path, tmp_path / "file.bin")
    assert target.read_bytes() == BODY
    assert server.asked == [None, None]
    assert server.sent == [CUT, len(BODY)]


def test_a_server_that_always_fails_gives_a_fault_that_says_how_to_resume(server: Server, tmp_path: Path) -> None:
    with pytest.raises(EnvFault, match="answered 503.*run the same command again to resume") as caught:
        fetch(server, "/503", tmp_path / "file.bin")
    assert caught.value.retryable
    assert len(server.asked) == 6


def test_unreachable_servers_are_faults(server: Server, tmp_path: Path) -> None:
    url = server.url("/good")
    server.server_close()
    server.shutdown()
    with pytest.raises(EnvFault, match="run the same command again") as caught:
        fetch_url(url, tmp_path / "file.bin", backoff_seconds=0.001)
    assert caught.value.retryable


def test_404_is_final_and_leaves_nothing(server: Server, tmp_path: Path) -> None:
    with pytest.raises(EnvFault, match="the server answered 404") as caught:
        fetch(server, "/404", tmp_path / "file.bin")
    assert not caught.value.retryable
    assert server.asked == [None]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["/good", "/endless"])
def test_oversize_is_refused_with_and_without_a_length(server: Server, tmp_path: Path, path: str) -> None:
    seen: list[int] = []
    with pytest.raises(EnvFault, match="beyond the cap of 100,000") as caught:
        fetch_url(
            server.url(path), tmp_path / "file.bin", None, lambda count, total: seen.append(count), max_bytes=100_000
        )
    assert not caught.value.retryable
    assert max(seen, default=0) <= 100_000
    assert list(tmp_path.iterdir()) == []


def test_redirects_may_only_lead_to_https(server: Server, tmp_path: Path) -> None:
    with pytest.raises(EnvFault, match="redirects may only lead to https"):
        fetch(server, "/redirect", tmp_path / "file.bin")
    assert len(server.asked) == 1


@pytest.mark.parametrize("url", ["http://example.org/x", "ftp://127.0.0.1/x", "file:///etc/hosts", "x"])
def test_other_addresses_are_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only https, and http to this machine"):
        fetch_url(url, tmp_path / "x")


def test_two_processes_do_not_write_one_part(server: Server, tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    with (tmp_path / "file.bin.part").open("ab") as other:
        fcntl.flock(other.fileno(), fcntl.LOCK_EX)
        with pytest.raises(EnvFault, match=r"another process is writing .*file\.bin\.part"):
            fetch(server, "/good", tmp_path / "file.bin")
    assert fetch(server, "/good", tmp_path / "file.bin").read_bytes() == BODY


def test_missing_extras_name_the_pip_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r'needs huggingface_hub: pip install "agent-envs\[data\]"'):
        fetch_hub("a/b", "c", "main", tmp_path)


def test_get_refuses_what_is_not_published() -> None:
    with pytest.raises(UsageError, match=r"popqa has no split 'train' from source 'hub'; published: test \(hub\)"):
        get("popqa", "train")
    with pytest.raises(UsageError, match="has no download"):
        get("sample")
    with pytest.raises(UsageError, match="no data set, problem set or corpus 'x'"):
        get("x", "dev")


ROWS = b"".join(
    json.dumps({"id": f"test_{n}", "question": "q", "golden_answers": ["a"]}).encode() + b"\n" for n in range(3)
)


def hub_path(name: str, split: str = "") -> str:
    found = [file for file in DATASETS[name].files if file.split == split] if split else [CORPORA[name].file]
    file = found[0]
    assert file is not None
    return f"/datasets/{file.repo}/resolve/{file.revision}/{file.path}"


def run(server: Server, folder: Path, program: str) -> list[str]:
    """Run a program whose hub is the server (HF_ENDPOINT is read when huggingface_hub is imported)."""
    (folder / "cache").mkdir(exist_ok=True)
    settings = {
        "HF_ENDPOINT": server.url(""),
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_TOKEN": "hf_secret",
        "AGENT_ENVS_CACHE": str(folder / "cache"),
    }
    kept = {key: value for key, value in os.environ.items() if key != "AGENT_ENVS_DATA"}
    prelude = (
        "from agent_envs.datasets.download import get, fetch_hub\n"
        "from agent_envs.datasets.catalogue import load_corpus, load_questions\n"
    )
    command = [sys.executable, "-c", prelude + program]
    process = subprocess.run(command, env=kept | settings, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


@needs("[data]")
def test_hub_round_trip_records_and_repairs(server: Server, tmp_path: Path) -> None:
    server.hub[hub_path("bamboogle", "test")] = ROWS
    read = "path = get('bamboogle', 'test')\nprint(path)\nprint(len(load_questions('bamboogle', 'test')))"
    path, count = run(server, tmp_path, read)
    assert Path(path).read_bytes() == ROWS
    assert count == "3"
    assert server.tokens == []
    note = Path(path).parent / "sha256.json"
    assert json.loads(note.read_bytes()) == {"test.jsonl": hashlib.sha256(ROWS).hexdigest()}
    sent = len(server.sent)
    Path(path).write_bytes(b"damaged")
    assert run(server, tmp_path, read) == [path, "3"]
    assert Path(path).read_bytes() == ROWS
    assert len(server.sent) > sent
    sent = len(server.sent)
    assert run(server, tmp_path, read) == [path, "3"]
    assert len(server.sent) == sent
    # What the first download recorded holds, even where the branch has moved since.
    server.hub[hub_path("bamboogle", "test")] = ROWS.replace(b"test_0", b"test_9")
    Path(path).unlink()
    fault = "from agent_envs.base.errors import EnvFault\ntry: get('bamboogle', 'test')\nexcept EnvFault as e: print(e.cause)"
    (cause,) = run(server, tmp_path, fault)
    assert hashlib.sha256(ROWS).hexdigest() in cause
    assert not Path(path).exists()


@needs("[data]")
def test_hub_faults(server: Server, tmp_path: Path) -> None:
    server.hub["/datasets/a/b/resolve/main/big.jsonl"] = ROWS
    program = (
        "from pathlib import Path\nfrom agent_envs.base.errors import EnvFault\n"
        f"for name, cap in (('none.jsonl', 99), ('big.jsonl', 9)):\n"
        f"    try: fetch_hub('a/b', name, 'main', Path({str(tmp_path)!r}) / 'x', None, cap)\n"
        "    except EnvFault as fault: print(fault.retryable, ' '.join(fault.cause.split()))"
    )
    missing, oversize = run(server, tmp_path, program)
    assert missing.startswith("False a/b/none.jsonl at main: ")
    assert oversize == f"False a/b/big.jsonl at main: {len(ROWS)} bytes are beyond the cap of 9"
    assert not list(tmp_path.glob("x/*.jsonl"))


@needs("[data]")
def test_a_packed_corpus_is_unpacked(server: Server, tmp_path: Path) -> None:
    lines = b"".join(json.dumps({"id": f"{n}", "contents": f'"T{n}"\ntext'}).encode() + b"\n" for n in range(50))
    server.hub[hub_path("wiki-18")] = gzip.compress(lines)
    program = "path = get('wiki-18')\nprint(path)\ncorpus = load_corpus('wiki-18')\nprint(len(corpus), corpus[7].title)"
    path, read = run(server, tmp_path, program)
    assert read == "50 T7"
    assert Path(path).read_bytes() == lines
    assert sorted(file.name for file in Path(path).parent.glob("[!.]*")) == ["sha256.json", "wiki-18.jsonl"]
    sent = len(server.sent)
    assert run(server, tmp_path, program) == [path, read]
    assert len(server.sent) == sent


@needs("[data]")
def test_mixtures_get_both(server: Server, tmp_path: Path) -> None:
    for name in ("nq", "hotpotqa"):
        server.hub[hub_path(name, "train")] = ROWS
    (folder, count) = run(
        server, tmp_path, "print(get('nq+hotpotqa', 'train'))\nprint(len(load_questions('nq+hotpotqa', 'train')))"
    )
    assert Path(folder).is_dir()
    assert count == "6"


@needs("[data]")
@pytest.mark.parametrize("damage", ["cut", "bits", "plain"])
def test_a_damaged_packed_corpus_is_a_fault_that_names_it(server: Server, tmp_path: Path, damage: str) -> None:
    packed = gzip.compress(os.urandom(4_000))
    broken = {"cut": packed[:1_000], "bits": packed[:12] + b"\xff" * 40 + packed[52:], "plain": b"no gzip"}
    server.hub[hub_path("wiki-18")] = broken[damage]
    program = (
        "from agent_envs.base.errors import EnvFault\ntry: get('wiki-18')\nexcept EnvFault as fault: print(fault.cause)"
    )
    (cause,) = run(server, tmp_path, program)
    assert "wiki-18.jsonl.gz does not unpack" in cause
    assert not list(tmp_path.rglob("wiki-18.jsonl"))


def test_an_unknown_name_is_told_every_name() -> None:
    with pytest.raises(UsageError, match="no data set, problem set or corpus 'nope'; the names are ") as caught:
        get("nope")
    names = str(caught.value).partition("; the names are ")[2].split(", ")
    assert {row["name"] for row in data_rows()} <= set(names) and len(names) == len(set(names))
