"""The README's picture is drawn from the figures of the first real model's run: `python -m benchmarks.first_curve`."""

import json
from pathlib import Path

from matplotlib.figure import Figure

FIGURES = Path(__file__).parent / "results" / "smollm2_searchqa.json"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "smollm2_searchqa.png"
INK, BARS = "#1f4e79", ("#9db8d2", "#1f4e79")


def main() -> None:
    """Draw the reward of each step, and success before and after with its intervals."""
    curve = json.loads(FIGURES.read_text(encoding="utf-8"))
    figure = Figure(figsize=(8, 2.7), dpi=120, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    rewards = curve["reward_by_step"]
    left.plot(range(1, len(rewards) + 1), rewards, marker="o", color=INK)
    left.set(xlabel="GRPO step (128 episodes each)", ylabel="mean training reward", ylim=(0, 1), xticks=range(2, 13, 2))
    sides = [curve["before"], curve["after"]]
    shares = [100 * side["success"] for side in sides]
    ends = [[100 * abs(side["success"] - side["interval"][end]) for side in sides] for end in (0, 1)]
    right.bar(["before", "after"], shares, yerr=ends, color=BARS, capsize=6)
    right.set(ylabel=f"success on {curve['test_tasks']} test tasks, %", ylim=(0, 100))
    for place, share in enumerate(shares):
        right.text(place, 4, f"{share:.1f}", ha="center", color=("black", "white")[place])
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE)
    print(PICTURE)


if __name__ == "__main__":
    main()
