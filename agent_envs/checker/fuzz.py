"""The fuzz check plays hostile text and ids, and fails where a step raises, hangs or pays more or less than declared."""

import contextlib
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from agent_envs.checker.env_under_test import CheckFailed, EnvUnderTest
from agent_envs.checker.expanded import hostile_id, takes_ids
from agent_envs.core.env import core_of

SECONDS_A_STEP = 30.0
IDS = 0.4  # of the steps, where there are expanded actions
_TAGS = ("<search>", "</search>", "<answer>", "</answer>", "<think>", "</think>", "<information>", "</information>",
         "<tool_call>", "</tool_call>", "ACTION:", "THINK:", '{"name": ', '"arguments": {', "}", "[", "]]")  # fmt: skip
_ODD = ("\x00", "\x1b[31m", "\u202e", "\ud800", "\udfff", "\U0001f600", "\u0301", "\ufeff", "\r\n", "\t", "\\", '"', "'",
        "\\ud800", "\\u0000", "${x}", "{{7*7}}", "%s", "../", "a", "0", "-1e999", "NaN", " ", "<", ">")  # fmt: skip


def hostile_strings(count: int, own_tags: Iterable[str] = ()) -> Iterator[str]:
    """Yield `count` strings: the edge cases, some of 1 MB and one above the cap, then mixtures of tags and odd text.

    Args:
        count: how many.
        own_tags: tags of the environment under test, mixed in with those of the known protocols.
    """
    tags = (*_TAGS, *(tag for tag in dict.fromkeys(own_tags) if tag and tag not in _TAGS))
    million = 1_000_000
    fixed = ["", " ", "\n", "\x00", "\ud800", "<search>", "<answer>", "</answer>"]
    fixed += ["<answer></answer>", "<search></search>", *((tag * (million // 6))[:million] for tag in _TAGS[:10])]
    fixed += ["[" * million, '{"a":' * (million // 5), "<search>" + "\ud800" * million, "\U0001f600" * million]
    fixed += ["<answer>" + "9" * million, "<search>" + "a " * (million // 2)]
    fixed += ["<search>" * 50_000 + "</answer>" * 50_000, "x" * (million + 17)]
    yield from fixed[:count]
    rng = random.Random("hostile")
    for _ in range(count - len(fixed)):
        parts = [rng.choice(tags if rng.random() < 0.5 else _ODD) * rng.choice((1, 1, 1, 2, 50))]
        while rng.random() < 0.85:
            parts.append(rng.choice(tags if rng.random() < 0.5 else _ODD) * rng.choice((1, 1, 1, 2, 50)))
            if rng.random() < 0.2:
                parts.append("".join(chr(rng.randrange(0x110000)) for _ in range(rng.randrange(20))))
        yield "".join(parts)


def check_hostile_text(subject: EnvUnderTest) -> str:
    """Return a note if hostile strings (and ids) all give UTF-8 text and bounded rewards, within 30 s; else CheckFailed."""
    env = subject.make()
    over, kinds, rng = True, Counter[str](), random.Random("splice")
    core = core_of(env)
    spec, ids = core.reward_spec, takes_ids(core)
    closing = (*core.stop, *core.answer_tags)
    own_tags = (*closing, *(tag.replace("</", "<", 1) for tag in closing))
    with _deadlines() as within:
        for number, text in enumerate(hostile_strings(subject.hostile, own_tags)):
            if over:
                subject.reset(env, number % max(subject.tasks, 1))
            if number % 2 and len(text) < 10_000:
                text = _splice(subject.sample(env, rng), text, rng)
            action: Any = text
            if ids and rng.random() < IDS:  # a legal action: text meets every active environment; or a hostile id
                action = hostile_id(ids, rng) if rng.random() < 0.3 else subject.sample(env, rng)
            what = f"string {number}, {text[:60]!r}" if action is text else f"step {number}, action {action!r}"
            within(f"{what}... ({len(text)} characters)" if action is text else what)
            try:
                observation, reward, terminated, truncated, _ = env.step(action)
                observation.encode("utf-8")
            except CheckFailed:
                raise
            except Exception as error:
                raise CheckFailed(f"{what}: {type(error).__name__}: {error}") from error
            within("")
            if not spec.low - 1e-9 <= float(reward) <= spec.high + 1e-9:
                raise CheckFailed(f"{what}: reward {reward}")
            over = terminated or truncated
            kinds[type(core.episode.turns[-1].parsed).__name__] += 1
    return f"{kinds.total()} strings, parsed as " + ", ".join(
        f"{kind} {count}" for kind, count in sorted(kinds.items())
    )


def _splice(action: Any, text: str, rng: random.Random) -> str:
    """Return a legal action's text with up to 200 of a hostile text's first characters at a random place inside."""
    legal = str(action)
    place = rng.randrange(len(legal) + 1)
    return legal[:place] + text[: rng.choice((1, 3, 8, 200))] + legal[place:]


@contextlib.contextmanager
def _deadlines() -> Iterator[Callable[[str], None]]:
    """Yield a function: a name starts a step's 30 s, then CheckFailed, "" stops it; no limit but in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda what: None
        return
    now = ""

    def late(number: int, frame: Any) -> None:
        """Raise CheckFailed when the timer's signal comes: the step took too long."""
        raise CheckFailed(f"{now} took more than {SECONDS_A_STEP:g} seconds")

    def within(what: str) -> None:
        """Start the timer of one step, named for the report; an empty text stops it."""
        nonlocal now
        now = what
        signal.setitimer(signal.ITIMER_REAL, SECONDS_A_STEP if what else 0)

    before = signal.signal(signal.SIGALRM, late)
    try:
        yield within
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
