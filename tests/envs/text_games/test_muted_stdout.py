"""Third parties print nothing; everybody else does."""

import io
import sys
import threading

import pytest

from agent_envs.envs.text_games.muted_stdout import muted_stdout


def test_what_is_printed_inside_is_dropped_and_outside_is_not(capsys):
    before = sys.stdout
    print("one")
    with muted_stdout():
        print("two")
        with muted_stdout():
            sys.stdout.writelines(["three"])
        print("four", flush=True)
        print("five", file=sys.stderr)
    print("six")
    assert capsys.readouterr() == ("one\nsix\n", "five\n") and sys.stdout is before


def test_an_error_ends_the_quiet(capsys):
    with pytest.raises(KeyError), muted_stdout():
        raise KeyError
    print("heard")
    assert capsys.readouterr().out == "heard\n"


def test_other_threads_print_on(capsys):
    inside, printed = threading.Event(), threading.Event()

    def silent():
        with muted_stdout():
            print("dropped")
            inside.set()
            printed.wait(10)

    thread = threading.Thread(target=silent)
    thread.start()
    inside.wait(10)
    print("heard")
    printed.set()
    thread.join()
    assert capsys.readouterr().out == "heard\n"


def test_a_stream_that_was_changed_inside_stays(monkeypatch):
    mine = io.StringIO()
    with muted_stdout():
        monkeypatch.setattr(sys, "stdout", mine)
    assert sys.stdout is mine
    print("heard")
    assert mine.getvalue() == "heard\n"
