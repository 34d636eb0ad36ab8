"""One value a key and process: made once, by one thread, kept within a bound, and not where the making failed."""

import pwd
import threading
from collections import OrderedDict

import pytest

from agent_envs.base.caches import cache_dir, shared


def test_a_value_is_made_once_a_key():
    shelf, made = OrderedDict(), []
    for key in ("a", "b", "a", ("a", 1), "b"):
        assert shared(shelf, key, lambda key=key: made.append(key) or str(key)) == str(key)
    assert made == ["a", "b", ("a", 1)]


def test_beyond_the_bound_the_longest_unused_is_forgotten():
    shelf, made = OrderedDict(), []
    for key in ("a", "b", "a", "c", "a", "b"):
        shared(shelf, key, lambda key=key: made.append(key) or key, 2)
        assert len(shelf) <= 2
    assert made == ["a", "b", "c", "b"]


def test_threads_wait_for_the_first_and_a_failure_is_not_kept():
    shelf, made, got = OrderedDict(), [], []
    asked = threading.Event()

    def build():
        asked.wait(10)
        made.append(len(made))
        if len(made) == 1:
            raise ValueError("the first fails")
        return made[-1]

    def ask():
        try:
            got.append(shared(shelf, "key", build))
        except ValueError as error:
            got.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    asked.set()
    for thread in threads:
        thread.join()
    assert sorted(got, key=str) == [1] * 5 + ["the first fails"] and made == [0, 1]
    with pytest.raises(ZeroDivisionError):
        shared(shelf, "other", lambda: 1 / 0)
    assert shared(shelf, "other", lambda: 5) == 5


def test_where_no_home_is_known_no_folder_is_named_after_it(monkeypatch):
    def unknown(number):
        raise KeyError(number)

    for name in ("HOME", "XDG_CACHE_HOME", "AGENT_ENVS_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(RuntimeError, match="home"):
        cache_dir()
