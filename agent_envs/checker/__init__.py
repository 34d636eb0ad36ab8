"""The checker tests any environment, ours or yours, against the contract: `check_turn_env(id_or_env)`, `agent-envs check`.

Every check has a name; a report says which passed, which failed and why, and which could not be made.

Modules, in reading order:
    env_under_test: the environment under test, how it is made again, its recorded random episodes, and the report.
    contract: snapshot, restore, fork, pickle, determinism, replay, spaces, info keys, reward bounds, refusals, threads.
    processes: fresh processes with other hash seeds (PYTHONHASHSEED).
    expanded: expanded actions, their mask and illegal ids.
    reward_leaks: reward hacking: solver (oracle policy) against silence, planted answers, gold that must stay hidden.
    fuzz: hostile strings, exceptions, steps that hang.
    third_party: the parts that anyone's environment allows, of Gymnasium, OpenEnv or verifiers: `agent-envs check gym:ID`.
"""

import time
import traceback
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import MissingExtra
from agent_envs.checker.contract import CONTRACT_CHECKS, FORK_CHECKS
from agent_envs.checker.env_under_test import Check, CheckFailed, CheckSkipped, EnvUnderTest, Report
from agent_envs.checker.expanded import EXPANDED_CHECKS
from agent_envs.checker.fuzz import check_hostile_text
from agent_envs.checker.reward_leaks import HONESTY_CHECKS
from agent_envs.core.authors_code import author_line, author_place, traceback_or_hint

__all__ = ["CHECKS", "Check", "Report", "check_turn_env"]

CHECKS: dict[str, Callable[[EnvUnderTest], str]] = {
    **CONTRACT_CHECKS, **FORK_CHECKS, **EXPANDED_CHECKS, **HONESTY_CHECKS, "hostile text": check_hostile_text,
}  # fmt: skip


def check_turn_env(
    env: str | gym.Env[Any, Any],
    *,
    episodes: int = 8,
    hostile: int = 10_000,
    split: str | None = None,
    progress: Callable[[str], None] | None = None,
    **arguments: Any,
) -> Report:
    """Run every check of the contract on an environment; an exception of the environment's counts as a failed check.

    Args:
        env: a registered id, or an environment (made by `gymnasium.make`, or a bare TurnEnv whose arguments are JSON-able).
        episodes: how many tasks of the split are played.
        hostile: how many hostile strings are thrown at it.
        split: which split; by default `test`, else the last one.
        progress: called with the name of each check before it runs.
        arguments: passed to `gymnasium.make` when `env` is an id.

    Returns:
        A report; `report.ok` is False if any check failed.

    Raises:
        UsageError: `env` is no TurnEnv, or cannot be made again.
        MissingExtra: it needs a package that is not installed.
    """
    subject = EnvUnderTest.of(env, arguments, tasks=episodes, hostile=hostile, split=split)
    rows: list[Check] = []
    for name, check in CHECKS.items():
        if progress is not None:
            progress(name)
        started = time.perf_counter()
        status = "passed"
        try:
            detail = check(subject)
        except CheckFailed as failure:
            status, detail = "failed", str(failure)
        except CheckSkipped as reason:
            status, detail = "skipped", str(reason)
        except MissingExtra:  # says nothing of the environment, and no check could be made
            raise
        except BaseException as error:  # a third party's environment may raise anything: that is a finding
            if not (line := _line(error, subject)):
                raise
            new = not any(row.detail.startswith(line) for row in rows)
            status, detail = "failed", line + (traceback_or_hint(error) if new else "")
            if name == "hidden gold":
                detail += "; gold, and texts or whole numbers of Task.hidden, were others here, of the same type"
        rows.append(Check(name, status, detail, time.perf_counter() - started))
    return Report(subject.env_id, tuple(rows))


def _line(error: BaseException, subject: EnvUnderTest) -> str:
    """Return the line for an exception: hook, method, words, file and line; "" for Ctrl-C and its like, which is no finding."""
    line = author_line(error).removeprefix(f"{subject.env_id}: ")
    frames = list(traceback.walk_tb(error.__traceback__))
    if not line and isinstance(error, Exception):
        place = f"{frames[-1][0].f_code.co_filename}:{frames[-1][1]}"
        line = f"raised {type(error).__name__}: {error} ({author_place(error) or place})"
    codes = {getattr(hook, "__code__", None): f"in the {kind}: " for kind, hook in subject.hooks.items()}
    return line and next((codes[frame.f_code] for frame, _ in frames if frame.f_code in codes), "") + line
