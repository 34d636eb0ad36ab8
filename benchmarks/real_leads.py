"""Leads of `benchmarks.real_curves` between arms, paired by seed and task, corrected for all leads of the plan.

A lead is the mean over tasks of the difference between two arms, each task's a mean over seeds; its test and interval are
`compare_paired`'s, clustered as the environment says. They speak of the seeds that were played: Student's interval over seeds
stands beside it, and "shown" also asks that every seed, of all that are planned, has a lead of that sign. Where the arms'
starts differ, leads are of gains: success after the run minus that before it, task by task.

Holm's correction is over all leads that the plan has, those not played yet included; intervals and detectable leads are those
of its first step (Bonferroni's), 1 - 0.05 / leads.
"""

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_envs.evaluation.statistics.paired import POWER, compare_paired, holm
from agent_envs.evaluation.statistics.student import t_quantile
from benchmarks.training_runs import mean_line, over_seeds, points, summarise_shares
from trainers.evaluation import OUTCOMES_FILE

ALPHA = 0.05
Outcomes = dict[str, dict[str, float]]  # by measure and task


@dataclass(frozen=True)
class PlannedLead:
    """A lead that the plan has: of a claim's first arm over another one, in one measure.

    Attributes:
        claim: its name.
        arms: the first, and the other.
        measure: "after", or "tests/NAME" of a further test.
        in_gains: whether what a run began with is taken off, as the arms' starts differ.
    """

    claim: str
    arms: tuple[str, str]
    measure: str
    in_gains: bool

    @property
    def name(self) -> str:
        """Its name, for figures."""
        measure = "" if self.measure == "after" else f", {self.measure.removeprefix('tests/').replace('_', ' ')}"
        return f"{self.arms[0]} over {self.arms[1]}{', in gains' * self.in_gains}{measure}"


def planned_leads(plan: Any) -> list[PlannedLead]:
    """Return all leads that a plan has, in order."""
    leads = []
    for claim, row in plan.table["claim"].items():
        first, *others = row.get("arm", {"": {}})
        for measure in row.get("measures", ["after"]):
            for arm in others:
                one, other = (row["arm"][name].get("start", row["start"]) for name in (first, arm))
                leads.append(PlannedLead(claim, (first, arm), measure, one != other))
    return leads


def smallest_lead(plan: Any, lead: PlannedLead) -> float:
    """Return the lead that the test finds with 80 % power: tasks drawn apart, half of them solved, nothing common to two arms.

    Tasks that share a cluster see less, arms that solve the same tasks more.
    """
    row = plan.table["claim"][lead.claim]
    tasks = row.get("budget", {}).get("evaluation.test-tasks", plan.table["common"]["evaluation.test-tasks"])
    error = math.sqrt((1 + lead.in_gains) * 0.5 / (tasks * len(plan.seeds(lead.claim))))
    level = ALPHA / len(planned_leads(plan))
    return min(1.0, (t_quantile(1 - level / 2, tasks - 1) + t_quantile(POWER, tasks - 1)) * error)


def power_line(plan: Any) -> str:
    """Describe what the plan can see, before any run: the smallest leads, claim by claim."""
    smallest = dict[str, float]()
    for lead in planned_leads(plan):
        smallest[lead.claim] = max(smallest.get(lead.claim, 0.0), smallest_lead(plan, lead))
    parts = ", ".join(f"{claim} {100 * value:.0f}" for claim, value in smallest.items())
    return f"smallest leads that it can show, in points: {parts}"


def outcomes_of(folder: Path) -> Outcomes:
    """Return a run's outcomes by measure and "CLUSTER/TASK" as JSON; {} where it has none."""
    path, table = folder / OUTCOMES_FILE, dict[str, dict[str, float]]()
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        row = json.loads(line)
        table.setdefault(row["measure"], {})[json.dumps([row["cluster"], row["task"]])] = row["success"]
    return table


def measured_lead(
    lead: PlannedLead, runs: Mapping[str, Mapping[int, Outcomes]], leads: int, smallest: float
) -> dict[str, Any] | None:
    """Return a lead with its test over the tasks that both arms have, by seed; None where they share no seed.

    Args:
        lead: which.
        runs: outcomes by arm and seed.
        leads: how many the plan has.
        smallest: lead that the plan could see.
    """
    sides: tuple[dict[str, list[float]], ...] = ({}, {})  # the other arm, the first
    by_seed = dict[int, float]()
    scale = 2 if lead.in_gains else 1
    for seed in sorted(runs[lead.arms[0]].keys() & runs[lead.arms[1]].keys()):
        first, other = (runs[arm][seed] for arm in lead.arms)
        tasks = _common(first, other, lead)
        # A difference of gains is one of (after + the other's before) / 2, twice: numbers in [0, 1], as the test wants them.
        pairs = [(_score(other, first, task, lead), _score(first, other, task, lead)) for task in tasks]
        for task, pair in zip(tasks, pairs, strict=True):
            for side, value in zip(sides, pair, strict=True):
                side.setdefault(task, []).append(value)
        if pairs:
            by_seed[seed] = scale * statistics.fmean(one - two for two, one in pairs)
    if not by_seed:
        return None
    clusters = {task: json.loads(task)[0] for task in sides[0]}
    test = compare_paired(*sides, clusters=clusters, level=1 - ALPHA / leads)
    return {
        "difference": round(scale * test.difference, 4),
        "interval": [round(max(-1.0, scale * test.low), 4), round(min(1.0, scale * test.high), 4)],
        "p_value": test.p_value,
        "method": test.method,
        "detectable": round(min(1.0, scale * test.detectable), 4),
        "planned_detectable": round(smallest, 4),
        "over_seeds": over_seeds(by_seed),
    }


def _common(first: Outcomes, other: Outcomes, lead: PlannedLead) -> list[str]:
    """Return the tasks that two runs have in all that a lead needs."""
    measures = (lead.measure, "before") if lead.in_gains else (lead.measure,)
    return sorted(set.intersection(*(set(run.get(name, {})) for run in (first, other) for name in measures)))


def _score(run: Outcomes, against: Outcomes, task: str, lead: PlannedLead) -> float:
    """Return a run's success on a task; in gains, its mean with that of the other before."""
    success = run[lead.measure][task]
    return (success + against["before"][task]) / 2 if lead.in_gains else success


def verdict(row: Mapping[str, Any], seeds: int, rehearsal: bool) -> str:
    """Return the verdict on a lead: by its corrected test, and whether all planned seeds have one sign."""
    values = row["over_seeds"]["by_seed"].values()
    if rehearsal:
        return "a rehearsal"
    if len(values) < seeds:
        return f"{len(values)} of {seeds} seeds"
    if row["p_holm"] >= ALPHA or not (all(value > 0 for value in values) or all(value < 0 for value in values)):
        return "not shown"
    return "shown" if row["difference"] > 0 else "the contrary is shown"


def figures(plan: Any, card: Path) -> dict[str, Any]:
    """Return the results of a card's runs: of each claim its arms' successes by seed, and the first arm's leads."""
    claims, leads, outcomes = dict[str, Any](), planned_leads(plan), dict[str, dict[str, dict[int, Outcomes]]]()
    for name, row in plan.table["claim"].items():
        arms = dict[str, dict[int, Any]]()
        for run in (run for run in plan.runs(name) if run.claim == name):
            if (path := card / run.folder / "result.json").exists():
                arms.setdefault(run.arm, {})[run.seed] = json.loads(path.read_text(encoding="utf-8"))
                outcomes.setdefault(name, {}).setdefault(run.arm, {})[run.seed] = outcomes_of(path.parent)
        if arms:
            claims[name] = {
                "says": row["says"],
                "axis": row.get("axis", ""),
                "arms": {arm: {"success": _successes(row, runs), "seeds": runs} for arm, runs in arms.items()},
                "leads": {},
            }
    rows = list[dict[str, Any]]()
    for lead in (lead for lead in leads if set(lead.arms) <= outcomes.get(lead.claim, {}).keys()):
        measured = measured_lead(lead, outcomes[lead.claim], len(leads), smallest_lead(plan, lead))
        if measured is not None:
            claims[lead.claim]["leads"][lead.name] = measured | {"seeds": len(plan.seeds(lead.claim))}
            rows.append(claims[lead.claim]["leads"][lead.name])
    corrected = holm([*(row["p_value"] for row in rows), *[1.0] * (len(leads) - len(rows))])
    for row, p_value in zip(rows, corrected, strict=False):
        row["p_holm"] = p_value
        row["verdict"] = verdict(row, row.pop("seeds"), plan.rehearsal)
    return claims


def _successes(row: Mapping[str, Any], runs: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return an arm's success over its seeds, measure by measure."""
    table = dict[str, Any]()
    for measure in row.get("measures", ["after"]):
        name = measure.removeprefix("tests/")
        sides = {seed: run["after"] if measure == "after" else run["tests"][name] for seed, run in runs.items()}
        table[measure] = summarise_shares({seed: side["success"] for seed, side in sides.items()})
    return table


def report(claims: Mapping[str, Any]) -> str:
    """Format figures as lines of text."""
    return "\n".join(line for name, claim in claims.items() for line in _lines(name, claim))


def _lines(name: str, claim: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a claim."""
    yield f"{name}: {claim['says']}" + (f" (at {claim['axis']})" if claim["axis"] else "")
    for arm, row in claim["arms"].items():
        turns = _percents([result["after"].get("valid_actions") for result in row["seeds"].values()])
        for measure, success in row["success"].items():
            label = arm if measure == "after" else f"{arm}, {measure.removeprefix('tests/').replace('_', ' ')}"
            yield f"  {label:16} {mean_line(success)}; valid turns {turns} %"
    for which, lead in claim["leads"].items():
        low, high = (100 * bound for bound in lead["interval"])
        yield (
            f"  {which}: {100 * lead['difference']:+.1f} [{low:+.1f}, {high:+.1f}], p {lead['p_holm']:.2g} of all leads: "
            f"{lead['verdict']}; it could show {100 * lead['detectable']:.0f} (planned: "
            f"{100 * lead['planned_detectable']:.0f}); over seeds {points(lead['over_seeds'])}"
        )


def _percents(shares: Sequence[float | None]) -> str:
    """Return shares as per cent, those that are known; "-" for none."""
    return ", ".join(f"{100 * share:.0f}" for share in shares if share is not None) or "-"
