"""Pages from real servers on this machine: what is read, what is refused in words, what is a fault, and replays."""

import copy
import os
import pickle
import signal
import socket
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.services.http import HttpClient
from agent_envs.services.recording import CallSite, Recording
from agent_envs.tools.web import PageReader, WebPage
from agent_envs.tools.web.url_policy import url_policy_for
from tests.rows import each_row
from tests.servers import FaultServer, gzip_bomb
from tests.tools.web.conftest import PAGE, TEXT, error_of, reader, redirect, site


def test_a_page_as_it_is_read():
    with site({"/a?b=c": PAGE}) as server:
        page = reader().read(f" {server.url}/a?b=c#part ")
        assert page == WebPage(f"{server.url}/a?b=c", "Mor", TEXT, (("flag", f"{server.url}/flag"),))
        ((method, path, headers, body),) = server.requests
    assert (method, path, body) == ("GET", "/a?b=c", b"") and headers["user-agent"] == "agent-envs"
    assert not {"authorization", "cookie", "referer", "content-length"} & set(headers)


def test_nothing_is_kept_between_pages():
    cookie = (200, {"Content-Type": "text/plain", "Set-Cookie": "crumb=1"}, b"tea")
    with site({"/": cookie, "/go": (302, {"Location": "/", "Set-Cookie": "crumb=2"}, b"")}) as server:
        opened = reader()
        assert [opened.read(server.url + path).text for path in ("/", "/go", "/")] == ["tea"] * 3
        assert server.connections == 1 and all("cookie" not in request[2] for request in server.requests)


KINDS = {
    "application/json": (b'{"a": [1, 2]}', '{"a": [1, 2]}'),
    "application/ld+json": (b"{}", "{}"),
    "text/plain; charset=utf-8": ("1 < 2 \u017d\r\nb\x00".encode(), "1 < 2 \u017d\nb"),
    "application/xml": (b"<a>1</a>", "<a>1</a>"),
    "application/atom+xml": (b"<feed/>", "<feed/>"),
    "text/csv": (b"a,b", "a,b"),
    "Text/HTML": (b"<p>hi", "hi"),
    "application/xhtml+xml;x": (b"<p>hi", "hi"),
    "text/html; charset=ISO-8859-1": ("<p>caf\xe9 \u20ac".encode("cp1252"), "caf\xe9 \u20ac"),
    "": (b"\n <p>hi", "hi"),
}


@each_row("kind", KINDS)
def test_kinds_of_pages_that_are_read(kind):
    body, text = KINDS[kind]
    with site({"/": (200, {"Content-Type": kind} if kind else {}, body)}) as server:
        page = reader().read(server.url + "/")
    assert (page.text, page.error) == (text, "")


@pytest.mark.parametrize(
    "kind", ["application/pdf", "image/png", "application/octet-stream", "video/mp4", "x", "text/", "a\tb"]
)
def test_kinds_that_are_not(kind):
    with site({"/": (200, {"Content-Type": kind}, b"%PDF")}) as server:
        said = error_of(server.url + "/")
    assert said == f"The page is of the type {' '.join(kind.split())}; only text, HTML, JSON and XML are read."


def test_bytes_that_are_no_text():
    with site({"/": bytes(range(256)) * 10 + b"\0" * 500, "/less": b"\0" + b"<p>" + b"a" * 50}) as server:
        assert error_of(server.url + "/") == "The page's bytes are no text."
        assert reader().read(server.url + "/less").text == "a" * 50


@pytest.mark.parametrize("status", [204, 206])
def test_other_successes_are_pages(status):
    with site({"/": (status, {"Content-Type": "text/plain"}, b"")}) as server:
        assert reader().read(server.url + "/") == WebPage(server.url + "/")


@each_row("status", [300, 304, 400, 401, 403, 404, 407, 410, 418, 451])
def test_a_refusal_is_told_at_once(status):
    with site({"/": (status, {"Content-Type": "text/html"}, PAGE)}) as server:
        assert error_of(server.url + "/") == f"127.0.0.1 answered {status}."
        assert server.count == 1


@pytest.mark.parametrize("status", [408, 425, 500, 502, 503, 529])
def test_a_failure_that_stays_is_told_after_its_attempts(status):
    with site({"/": (status, {"Retry-After": "0"}, b"")}) as server:
        assert error_of(server.url + "/") == f"127.0.0.1 answered {status}."
        assert server.count == 5


FAILING = {
    "hang": "127.0.0.1 did not answer in full within 0.3 s.",
    "slow_drip": "127.0.0.1 did not answer in full within 0.3 s.",
    "slow_headers": "127.0.0.1 did not answer in full within 0.3 s.",
    "reset": "The answer of 127.0.0.1 is not sound HTTP.",
    "short_body": "The answer of 127.0.0.1 is not sound HTTP.",
    "garbage": "The answer of 127.0.0.1 is not sound HTTP.",
    "stale_connection": "The answer of 127.0.0.1 is not sound HTTP.",
    "huge_header": "The page is larger than 100,000 bytes.",
    "huge_body": "The page is larger than 100,000 bytes.",
    "gzip_bomb": "The page is larger than 100,000 bytes.",
    "overloaded": "127.0.0.1 answered 529.",
    "redirect_loop": "The page leads on more than 5 times.",
}
AT_ONCE = {"huge_header", "huge_body", "gzip_bomb", "redirect_loop"}


@pytest.mark.parametrize("kind", FAILING)
def test_servers_that_fail_are_told_in_words_and_the_next_page_is_read(kind):
    gzip_bomb()
    down = True
    with site({"/": PAGE}, lambda ordinal: kind if down else None) as server:
        opened = reader(seconds=0.3, max_bytes=100_000)
        assert opened.read(server.url + "/") == WebPage(server.url + "/", error=FAILING[kind])
        # Others are tried again as long as the deadline allows.
        assert kind not in AT_ONCE or server.count == (6 if kind == "redirect_loop" else 1)
        down = False
        assert reader().read(server.url + "/").text == TEXT


def test_a_failure_that_passes_is_not_seen():
    with site({"/": PAGE}, {0: "overloaded", 1: "reset", 2: "rate_limit"}) as server:
        assert reader().read(server.url + "/").text == TEXT
        assert server.count >= 4


def test_the_deadline_is_over_all_redirects_of_an_attempt():
    def slowly(path, headers, body):
        time.sleep(0.2)
        return redirect(f"/{len(path)}{path[1:]}")

    with FaultServer(slowly) as server:
        assert error_of(server.url + "/", seconds=0.5) == "127.0.0.1 did not answer in full within 0.5 s."


def test_the_cap_is_exact_and_counts_what_is_unpacked():
    packed = (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, _gzip(b"x" * 1_000))
    with site({"/": b"x" * 1_000, "/packed": packed}) as server:
        for path in ("/", "/packed"):
            assert reader(max_bytes=1_000).read(server.url + path).text == "x" * 1_000
            assert error_of(server.url + path, max_bytes=999) == "The page is larger than 999 bytes."


def _gzip(data):
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return packer.compress(data) + packer.flush()


def test_a_coding_that_nobody_asked_for():
    with site({"/": (200, {"Content-Type": "text/html", "Content-Encoding": "br"}, b"\x8b\x02\x80")}) as server:
        assert error_of(server.url + "/") == "The answer of 127.0.0.1 is not sound HTTP."


def test_a_site_that_limits_our_rate_is_a_fault_and_is_asked_again_later(tmp_path):
    waits = []
    busy = True
    with site({"/": PAGE}, lambda ordinal: "rate_limit" if busy else None, retry_after="2") as server:
        with Recording(tmp_path / "r.jsonl", "record") as recording:
            opened = reader(recording=recording, wait=waits.append)
            with pytest.raises(EnvFault, match="answered 429: too many requests .attempt 5 of 5") as caught:
                opened.read(server.url + "/")
            assert caught.value.retryable and server.count == 5 and all(2 <= wait <= 10 for wait in waits)
            busy = False
            assert opened.read(server.url + "/").text == TEXT


def test_record_and_replay(tmp_path):
    pages = {"/": PAGE, "/go": redirect("/"), "/bad": (404, {}, b""), "/in": redirect("http://10.0.0.1/")}
    with site(pages, {0: "overloaded"}) as server, Recording(tmp_path / "r.jsonl", "record") as recording:
        urls = [server.url + path for path in ("/", "/go", "/bad", "/in")] + [
            "ftp://a",
            "",
            "http://\ud800/",
            "x" * 3_000,
        ]
        opened = reader(recording=recording)
        seen = [opened.read(url) for url in urls]
        count = server.count
        assert [opened.read(url) for url in urls] == seen and server.count == count
    assert [bool(page.error) for page in seen] == [False, False, True, True, True, True, True, True]
    # The rules are not asked again: nothing is sent.
    replayed = PageReader(recording=Recording(tmp_path / "r.jsonl", "replay"))
    assert [replayed.read(url) for url in urls] == seen
    with pytest.raises(EnvFault, match="web_page: no recording for request"):
        replayed.read("http://h.example/")


@pytest.mark.parametrize(
    "damage",
    [{"url": 5}, {"text": None}, {"title": "t" * 301}, {"links": [["a"]]}, {"links": "ab"}, {"links": [["a", 5]]}, {"more": 1},
     {"links": [["a", "b"]] * 301}, {"text": "t" * 200_001}, {"error": []}, {"links": [["a" * 201, "b"]]}],
)  # fmt: skip
def test_a_recording_of_a_stranger_is_checked(tmp_path, damage):
    with site({"/": PAGE}) as server, Recording(tmp_path / "r.jsonl", "record") as recording:
        opened = reader(recording=recording)
        page = opened.read(server.url + "/")
        request = {"url": server.url + "/x"}
        recording.keep(opened._port.key(request, CallSite("")), "web_page", request, page.to_json() | damage)
        with pytest.raises(EnvFault, match="web_page: the recorded page is malformed: ") as caught:
            opened.read(server.url + "/x")
        assert not caught.value.retryable and WebPage.from_json(page.to_json()) == page


@pytest.mark.parametrize(
    "settings", [{"max_bytes": 0}, {"seconds": 0}, {"seconds": float("nan")}, {"private_hosts": "intra"},
                 {"private_hosts": ["a/b"]}],
)  # fmt: skip
def test_settings_that_are_none(settings):
    with pytest.raises(UsageError, match="PageReader: "):
        PageReader(**settings)


def test_copies_are_the_reader_itself_and_rules_travel():
    opened = reader()
    assert copy.deepcopy({"reader": opened})["reader"] is opened
    client = pickle.loads(pickle.dumps(HttpClient("web", admit=url_policy_for(["intra:80"]))))
    assert client.admit == url_policy_for(["intra:80"]) != url_policy_for([])
    fault = pickle.loads(pickle.dumps(fault_of_kind()))
    assert (fault.kind, fault.cause.partition(": ")[0]) == ("connect", "web")


def fault_of_kind():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(EnvFault) as caught:
        HttpClient("web").send("GET", f"http://127.0.0.1:{port}/", seconds=5)
    return caught.value


def test_many_threads_get_their_own_pages():
    def answer(path, headers, body):
        return (200, {"Content-Type": "text/plain"}, path.encode())

    with FaultServer(answer) as server:
        opened = reader()
        with ThreadPoolExecutor(8) as pool:
            pages = list(pool.map(lambda number: opened.read(f"{server.url}/{number}"), range(80)))
    assert [page.text for page in pages] == [f"/{number}" for number in range(80)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_reads_over_connections_of_its_own():
    with site({"/": PAGE}) as server:
        opened = reader()
        assert opened.read(server.url + "/").text == TEXT
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                os._exit(0 if opened.read(server.url + "/").text == TEXT else 3)
            finally:
                os._exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert opened.read(server.url + "/").text == TEXT and server.connections == 2
