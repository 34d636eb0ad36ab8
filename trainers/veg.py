"""VEG (verbal epsilon-greedy) trains by GRPO on episodes that are played with feedback before every turn.

    python -m trainers.veg --preset tiny-searchqa --seed 0 --out runs/veg

The algorithm is `trainers.grpo`, unchanged: VEG is a wrapper around the environment (`agent_envs.wrappers.VerbalFeedback`) that
explores with probability epsilon and exploits otherwise. Feedback is a part of the observation: in the context, never in the
loss, and rewards do not know of it. `--feedback none` is GRPO from the same start.

The paper's Tables 1 to 4 are sweeps under `trainers/presets/veg/sweeps`, table1 and so on; epsilon and feedback are Tables 3
and 4 on one core.

Deviations from the paper: those of `trainers.grpo`, and
 1. Feedback has its own message, of the user's role, with a mark before it; templates are in our own words.
 2. A run is measured with feedback, as the paper does, and without.
 3. `--feedback-fade` is ours: groups without feedback take the place of advised ones, more at every step, by a seeded draw.
"""

import json
import sys
from dataclasses import dataclass, replace
from typing import Any

from agent_envs.rollout.episode_runner import Planned
from trainers.command_line import one_line_errors, parse
from trainers.environments import wrapper_rows
from trainers.grpo import GRPOSettings, train
from trainers.run import TrainingRun, open_run
from trainers.sampling import shares
from trainers.veg_parts import FeedbackSettings, advise

TESTS = {"with_feedback": "after_with_feedback", "without_feedback": "after_without"}


@dataclass(frozen=True)
class VEGSettings(FeedbackSettings, GRPOSettings):
    """GRPO with verbal feedback before every turn; other settings are those of GRPO.

    Attributes:
        preset: start from these settings: a name under trainers/presets/veg, or a .toml file.
        out: folder of the run.
    """

    out: str = "runs/veg"

    def __post_init__(self) -> None:
        """Refuse what no other part would, with a UsageError."""
        GRPOSettings.__post_init__(self)
        FeedbackSettings.__post_init__(self)

    def stack(self, feedback: str) -> list[dict[str, Any]]:
        """Return the wrappers around the environment with the feedback of a source, or with `none`."""
        inner = [{name: arguments} for name, arguments in wrapper_rows(self.env.wrappers, "env.wrappers")]
        return inner if feedback == "none" else [*inner, self.wrapper(feedback)]

    def with_feedback(self) -> "VEGSettings":
        """Return the settings that GRPO is run with: feedback in training, and tests with it and without."""
        stacks = dict(zip(TESTS, (self.stack(self.tester), self.stack("none")), strict=True))
        tested = json.loads(self.env.test_arguments)
        tests = json.loads(self.env.tests) | {name: {**tested, "wrappers": stack} for name, stack in stacks.items()}
        env = replace(self.env, wrappers=json.dumps(self.stack(self.feedback)), tests=json.dumps(tests))
        return replace(self, env=env)

    def plan(self, run: TrainingRun) -> tuple[list[Planned], dict[str, float]]:
        """Return the episodes of the coming step; where advice fades out, some groups have none."""
        plan, metrics = super().plan(run)
        if not self.feedback_fade:
            return plan, metrics
        share = max(0.0, 1 - run.step / self.feedback_fade)
        count = shares((share, 1 - share), self.tasks_per_step, self.seed, run.step)[0]
        plan = advise(plan, self.group_size, count, f"advised:{self.seed}:{run.step}")
        return plan, {"feedback/share": count / self.tasks_per_step}


def results(measured: dict[str, Any]) -> dict[str, Any]:
    """Return VEG's part of the result: success with feedback and without."""
    return {label: measured["tests"][name] for name, label in TESTS.items()}


def main() -> None:
    """Run the command line: print who gives feedback, if a model, and train; exit with 2 for an error, 130 for Ctrl-C."""
    with one_line_errors("veg"):
        settings, out = parse(VEGSettings, program="veg")
        if note := settings.summary():
            print(f"veg: {note}", file=sys.stderr)
        with open_run(settings.with_feedback(), out, settings.spending()) as run:
            train(settings, run, results)


if __name__ == "__main__":
    main()
