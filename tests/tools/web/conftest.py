"""A site on this machine, and a resolver that knows the names of the tests."""

import socket
from collections import Counter

import pytest

from agent_envs.base.errors import EnvFault
from agent_envs.tools.web import PageReader, WebPage
from tests.servers import FaultServer

PAGE = b"<title>Mor</title><h1>Mor</h1><p>A <a href='/flag'>flag</a> &amp; a harbour."
TEXT = "# Mor\n\nA flag & a harbour."
REAL_LOOK_UP = socket.getaddrinfo


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("SERPER_API_KEY", "BRAVE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


class Names:
    """What the system's resolver answers for some names: lists of addresses in turn, or an error."""

    def __init__(self):
        self.known = {}
        self.asked = Counter()

    def look_up(self, host, port, *args, **kwargs):
        answers = self.known.get(host)
        if answers is None:
            return REAL_LOOK_UP(host, port, *args, **kwargs)
        answer = answers[min(self.asked[host], len(answers) - 1)]
        self.asked[host] += 1
        if isinstance(answer, OSError):
            raise answer
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answer]


@pytest.fixture
def names(monkeypatch):
    made = Names()
    monkeypatch.setattr(socket, "getaddrinfo", made.look_up)
    return made


def site(pages, faults=None, **answers):
    """Return a server of pages by path: bodies, or whole answers (status, headers, body)."""

    def reply(path, headers, body):
        page = pages.get(path, (404, {}, b"nothing here"))
        return page if isinstance(page, tuple) else (200, {"Content-Type": "text/html; charset=utf-8"}, page)

    return FaultServer(reply, faults, **answers)


def reader(**settings):
    """Return a reader that may open this machine, and does not wait."""
    return PageReader(**({"private_hosts": ["127.0.0.1"], "wait": lambda seconds: None} | settings))


def redirect(target, status=302):
    return (status, {"Location": target}, b"moved")


def error_of(url, **settings):
    page = reader(**settings).read(url)
    assert page == WebPage(url, error=page.error) and page.error
    return page.error


def fault_of(url, **settings):
    with pytest.raises(EnvFault) as caught:
        reader(**settings).read(url)
    return caught.value
