"""The toy keeps the whole contract, so that a test on it is a test of the house."""

from agent_envs import check_turn_env
from tests.toy import ID


def test_the_checker_passes_on_a_third_partys_environment():
    report = check_turn_env(f"tests.toy:{ID}", episodes=3, hostile=500)
    assert report.ok, [(check.name, check.detail) for check in report.checks if check.status == "failed"]
