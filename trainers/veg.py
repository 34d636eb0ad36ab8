"""VEG: verbal epsilon-greedy, GRPO whose episodes are played with feedback before every turn.

    python -m trainers.veg --preset tiny-searchqa --seed 0 --out runs/veg

The algorithm is `trainers.grpo`, unchanged: VEG is a wrapper around the environment (`agent_envs.wrappers.VerbalFeedback`) that
explores with probability epsilon and exploits otherwise. Feedback is a part of the observation: in the context, never in the
loss, and rewards do not know of it. `--feedback none` is GRPO from the same start.

The paper's Tables 3 and 4 are sweeps: `--sweep epsilon`, `--sweep feedback` (`--seeds 0,1,2` for several seeds).

Deviations from the paper: those of `trainers.grpo`; feedback has its own message, of the user's role, with a mark before it;
templates are in our own words. A run is measured with feedback, as the paper does, and without.
"""

import json
import sys
from dataclasses import dataclass, replace
from typing import Any

from trainers.command_line import one_line_errors, option, parse
from trainers.grpo import GRPOSettings, train
from trainers.stacks import wrapper_rows
from trainers.sweeps import run_sweep
from trainers.training_run import open_run

TESTS = {"with_feedback": "after_with_feedback", "without_feedback": "after_without"}


@dataclass(frozen=True)
class VEGSettings(GRPOSettings):
    """GRPO with verbal feedback before every turn; other settings are those of GRPO.

    Attributes:
        epsilon: how often feedback is to explore.
        feedback: who gives it in training: `scripted:good`, `scripted:weak`, `scripted:misleading`, a chat model's name
            (`anthropic:MODEL`, `openai:MODEL@URL`), or `none`.
        test_feedback: who gives it where feedback is measured; "" for who gave it in training, or `scripted:good` after none.
        templates: a folder with explore.md and exploit.md, "" for ours; of chat models.
        max_calls: calls of a chat model, 0 for no limit.
        max_cost: US dollars for a chat model, 0 for no limit.
    """

    out: str = "runs/veg"
    epsilon: float = 0.1
    feedback: str = "scripted:good"
    test_feedback: str = ""
    templates: str = ""
    max_calls: int = 0
    max_cost: float = 0.0

    def stack(self, feedback: str) -> list[dict[str, Any]]:
        """Return the wrappers around the environment with somebody's feedback, or with `none`."""
        inner = [{name: arguments} for name, arguments in wrapper_rows(self.env.wrappers, "env.wrappers")]
        names = ("epsilon", "templates", "max_calls", "max_cost")
        given = {"feedback": feedback, **{name: getattr(self, name) for name in names}}
        return inner if feedback == "none" else [*inner, {"VerbalFeedback": given}]

    def with_feedback(self) -> "VEGSettings":
        """Return the settings that GRPO is run with: feedback in training, and tests with it and without."""
        tester = self.test_feedback or ("scripted:good" if self.feedback == "none" else self.feedback)
        stacks = dict(zip(TESTS, (self.stack(tester), self.stack("none")), strict=True))
        tested = json.loads(self.env.test_arguments)
        tests = json.loads(self.env.tests) | {name: {**tested, "wrappers": stack} for name, stack in stacks.items()}
        env = replace(self.env, wrappers=json.dumps(self.stack(self.feedback)), tests=json.dumps(tests))
        return replace(self, env=env)


def results(measured: dict[str, Any]) -> dict[str, Any]:
    """Return what VEG's result has beside GRPO's: success with feedback and without."""
    return {told: measured["tests"][name] for name, told in TESTS.items()}


def main() -> None:
    """Run the command line."""
    with one_line_errors("veg"):
        words = sys.argv[1:]
        if name := option(words, "--sweep"):
            return print(run_sweep("veg", name, words))
        settings, out = parse(VEGSettings, program="veg")
        with open_run(settings.with_feedback(), out, settings.steps * settings.epochs * settings.minibatches) as run:
            train(settings, run, results)


if __name__ == "__main__":
    main()
