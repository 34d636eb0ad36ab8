"""A page that cannot be written raises a one-line error with its path, and an older page stays intact."""

import resource
import signal
from contextlib import contextmanager

import pytest

from agent_envs import UsageError
from agent_envs.evaluation.html.page import Page, write_page
from agent_envs.evaluation.html.view import write_view
from tests.evaluation.html.test_view import plain_run

PAGE = Page("A page", "Words.")


@contextmanager
def full_disk(most=1):
    """Files may grow to so many bytes inside, which fails as a full disk does; what pytest writes comes after it."""
    old, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_page_at_an_odd_place(tmp_path):
    (tmp_path / "file").write_text("x")
    for place in (tmp_path, tmp_path / "file" / "page.html", tmp_path / ("n" * 300)):
        with pytest.raises(UsageError, match="the page cannot be written"):
            write_page(place, PAGE)
    (tmp_path / "link").symlink_to(tmp_path / "there.html")
    write_page(tmp_path / "link", PAGE)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "there.html").read_bytes().endswith(b"\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link", "there.html"]


def test_a_full_disk_leaves_the_old_page(tmp_path):
    (tmp_path / "page.html").write_text("old")
    with full_disk(), pytest.raises(UsageError, match="the page cannot be written"):
        write_page(tmp_path / "page.html", PAGE)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_view_on_a_full_disk(tmp_path):
    run = plain_run(tmp_path / "run", 3)
    told = r"view: the pages of .* cannot be written to .*view"
    with full_disk(2_000), pytest.raises(UsageError, match=told):
        write_view(run, tmp_path / "view")
    assert write_view(run, tmp_path / "view").is_file()
