"""`agent-envs play` at a real terminal: words kept whole, forms, help, leaving, and what is told at the end."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.cli.play import _tell_end, fold_text
from tests import ROOT
from tests.cli.conftest import shell
from tests.examples import part
from tests.needs import needs

COLUMNS = 60


class Terminal:
    """`play` behind a terminal of 60 columns."""

    def __init__(self, *arguments):
        self.main, side = pty.openpty()
        termios.tcsetwinsize(side, (40, COLUMNS))
        command = [sys.executable, "-m", "agent_envs", "play", *arguments]
        environment = {**os.environ, "TERM": "dumb", "COLUMNS": "", "INPUTRC": os.devnull}
        self.process = subprocess.Popen(
            command, stdin=side, stdout=side, stderr=side, cwd=ROOT, env=environment, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a suite in the background ignores it
        )  # fmt: skip
        os.close(side)
        self.shown = ""

    def wait(self, text, seconds=60):
        """Read until a text is shown, and return all that was."""
        end, start = time.monotonic() + seconds, len(self.shown)
        while text not in self.shown[start:]:
            assert time.monotonic() < end, f"{text!r} never came:\n{self.shown}"
            if select.select([self.main], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self.main, 65_536).decode(errors="replace")
                except OSError:  # the other side is closed
                    break
        assert text in self.shown[start:], self.shown
        return self.shown

    def type(self, line, then):
        """Type a line and wait for a text."""
        os.write(self.main, f"{line}\n".encode())
        return self.wait(then)

    def leave(self, then):
        """Type Ctrl-D, again while nothing follows: one that comes while the terminal changes its mode is lost."""
        return self._until(then, lambda: os.write(self.main, b"\x04"))

    def interrupt(self, then):
        """Send what Ctrl-C sends, again while nothing follows: between the prompt and the wait for a key it is lost."""
        return self._until(then, lambda: os.killpg(self.process.pid, signal.SIGINT))

    def _until(self, then, act):
        for _ in range(20):
            act()
            with contextlib.suppress(AssertionError):
                return self.wait(then, seconds=2)
        raise AssertionError(f"{then!r} never came:\n{self.shown}")

    def end(self):
        """Return the exit code."""
        return self.process.wait(60)


@pytest.fixture
def terminal():
    opened = []

    def start(*arguments):
        opened.append(Terminal(*arguments))
        opened[-1].wait("\n> ")
        return opened[-1]

    yield start
    for item in opened:
        item.process.kill()
        item.process.wait()
        os.close(item.main)


def test_words_are_whole_and_the_end_tells_terms_return_and_gold(terminal):
    screen = terminal("SearchQA", "--split", "test")
    screen.type("search", "query: ")
    screen.type("Buhex Bibolan", "turn 2,")
    shown = screen.type("/answer 1850", "gold                 1850")
    lines = [line.rstrip("\r") for line in shown.split("\n")]
    told = [line for line in lines if "born" in line or "documents" in line]
    assert told and all(len(line) <= COLUMNS for line in lines)
    words = set(re.findall(r"[A-Za-z]+", " ".join(told)))
    assert {"documents"} <= words and not words & {"docume", "documen"}
    assert "The episode is over after turn 2: solved." in shown
    assert re.search(r"reward, exact_match +1\r?\nreturn, their sum +1\r?\ngold +1850", screen.shown)
    assert screen.end() == 0


def test_help_and_quit_also_within_a_form(terminal):
    screen = terminal("Tau2Retail")
    assert "1 find_user_id_by_email" in screen.shown and "16 transfer_to_human_agents" in screen.shown
    screen.type("/help", "leaves.")
    assert "exchange_delivered_order_items(order_id, item_ids," in screen.shown
    screen.type("get_order_details", "order_id")
    screen.type("#W4347149", "turn 2,")
    assert "'order_id': '#W4347149'," in screen.shown  # a value a line, and no JSON of 900 characters
    screen.type("cancel_pending_order", "order_id")
    screen.type("/quit", "bye")
    assert screen.end() == 0


@needs("[babyai]")
def test_ctrl_c_and_ctrl_d_leave_with_a_word(terminal):
    screen = terminal("BabyAI")
    assert "1 turn left   2 turn right" in screen.shown
    screen.type(
        "3", "6 toggle\r\n> "
    )  # not before the line is asked for: until then the terminal itself takes a Ctrl-D
    os.write(screen.main, b"\x04")
    screen.wait("bye")
    assert screen.end() == 0
    screen = terminal("SearchQA")
    screen.interrupt("left before the end; bye")
    assert screen.end() == 130


def test_a_line_may_be_longer_than_a_terminals_own(terminal):
    pytest.importorskip("readline")
    screen = terminal("SearchQA", "--split", "test")
    screen.type("answer", "text: ")
    screen.type("x" * 9_000, "gold")
    assert "over after turn 1: not solved" in screen.shown


@pytest.mark.parametrize("env_id", part(["SearchQA", "Tau2Retail", "Sort", "SortExpA"], ["Tau2Retail", "SortExpA"]))
def test_bytes_that_are_no_text_and_long_lines_are_turns_like_others(env_id):
    lines = [
        b"\xff\xfe\x00\x1b]0;owned\x07",
        b"",
        b"x" * 2_000_000,
        b"",
        b"{" * 100_000,
        b"",
        b"/help",
        b"/nothing",
        b"",
    ]
    command = [sys.executable, "-m", "agent_envs", "play", env_id]
    ran = subprocess.run(command, input=b"\n".join(lines), cwd=ROOT, capture_output=True, check=False, timeout=300)
    assert (ran.returncode, ran.stderr) == (0, b"") and b"no more input; bye" in ran.stdout
    assert b"\x1b" not in ran.stdout and b"\x07" not in ran.stdout


def test_folding():
    assert fold_text("one two three", 30) == "one two three"
    assert fold_text("- " + "word " * 10, 30) == "- word word word word word\n  word word word word word"
    assert fold_text("x" * 70, 30) == "x" * 30 + "\n" + "x" * 30 + "\n" + "x" * 10
    assert fold_text('{"a": [1, 2, 3], "b": {"c": "long enough to be laid out"}}', 30).split("\n")[:2] == [
        "{",
        "    'a': [1, 2, 3],",
    ]
    assert fold_text("[" * 9_000, 40).count("[") == 9_000 and fold_text("\x1b[2J", 30) == "[2J"


def test_what_is_piped_is_not_folded():
    ran = shell("play", "SearchQA", input="/quit\n")
    assert max(map(len, ran.stdout.splitlines())) > 110 and ran.returncode == 0


def test_the_end_of_a_solved_telecom_episode_names_the_terms_that_do_not_apply(capsys):
    env = gym.make("agent_envs/Tau2Telecom-v0")
    env.reset(seed=0)
    for action in agent_envs.solve(env):
        env.step(action)
    _tell_end(env.unwrapped, "solved")
    ends = dict(re.findall(r"^reward, (\w+) +(\S+)$", capsys.readouterr().out, re.M))
    assert ends == dict.fromkeys(ends, "-") | {"env_assertion": "1"} and {"db", "all_or_nothing"} < ends.keys()
