"""The checker names the hook that fails or has another signature, and the line of the author's file."""

import pytest

from agent_envs import UsageError, check_turn_env, register_companions
from tests.toy import Guess, sampler, solver


def failures(env):
    report = check_turn_env(env, episodes=1, hostile=5)
    return {check.name: check.detail for check in report.checks if check.status == "failed"}


def place(function, below=1):
    return f"{__file__}:{function.__code__.co_firstlineno + below}"


class HeuristicThatTakesAnEnv(Guess):
    """Its heuristic takes the request for an environment, as the solver is given one."""


def _reads_the_env(request):
    return solver(request)


def test_a_hook_that_fails_is_named_with_its_line():
    register_companions(HeuristicThatTakesAnEnv, solver=solver, sampler=sampler, heuristic=_reads_the_env)
    found = failures(HeuristicThatTakesAnEnv())
    assert set(found) == {"fresh processes", "solver"}
    place = f"{solver.__code__.co_filename}:{solver.__code__.co_firstlineno + 2}"
    raised = f"_reads_the_env() raised AttributeError: 'Request' object has no attribute 'unwrapped' ({place})"
    assert found["solver"].startswith(f"in the heuristic: {raised}")


class HooksOfAnotherSignature(Guess):
    """One of its hooks takes other parameters."""


@pytest.mark.parametrize(
    ("hook", "function", "called"),
    [
        ("solver", lambda: "", "solver(env): too many"),
        ("sampler", lambda env: "", "sampler(env, rng): too many"),
        ("heuristic", lambda env, rng: "", "heuristic(request): missing a required"),
    ],
)
def test_a_hook_of_another_signature_is_named_before_anything_is_played(hook, function, called):
    register_companions(
        HooksOfAnotherSignature, **{"solver": solver, "sampler": sampler, "heuristic": str, hook: function}
    )
    with pytest.raises(UsageError) as error:
        check_turn_env(HooksOfAnotherSignature())
    assert f"its {hook} ({place(function, 0)}) is called as {called}" in str(error.value)


class TableOfSecrets(Guess):
    """Its dynamics look the secret up in a table of those that it knows."""

    def _advance(self, episode, action):
        _ = dict.fromkeys(range(101))[episode.task.hidden]
        return super()._advance(episode, action)


def test_dynamics_that_cannot_play_with_another_secret_are_told_what_the_check_did():
    found = failures(TableOfSecrets())
    assert set(found) == {"hidden gold"}
    assert place(TableOfSecrets._advance) in found["hidden gold"] and "Task.hidden" in found["hidden gold"]


class FailsInAnotherPackage(Guess):
    """The line that raises is another package's; the author's is further up."""

    def _advance(self, episode, action):
        __import__("json").loads("{")
        return super()._advance(episode, action)


def test_the_line_is_the_authors_and_no_other_packages():
    found = failures(FailsInAnotherPackage())
    assert len(found) > 8 and all(
        place(FailsInAnotherPackage._advance) in found[name] for name in ("spaces", "forks", "info")
    )
