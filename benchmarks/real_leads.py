"""Leads of `benchmarks.real_curves` between arms, paired by seed and task, and the one rule for verdicts of docs/claims.md.

A lead is the mean over seeds and tasks of the difference between two arms; where their starts differ, leads are of gains:
success after the run minus that before it, task by task. Its interval is over seeds and over tasks at once. The squared error
is that of clusters in two ways (Cameron, Gelbach and Miller, Journal of Business & Economic Statistics 29, 2011, equation
2.11: by seed, plus by cluster of tasks, less by both), and no less than either alone; the degrees of freedom are those of the
seeds, which are few (or of clusters, if fewer). So a lead says something of further seeds and of further tasks.

Holm's correction is over all comparisons of docs/claims.md, those not played yet included; intervals and smallest leads are
those of its first step (Bonferroni's), 1 - 0.05 / comparisons.
"""

import hashlib
import json
import math
import statistics
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.statistics.paired import POWER, holm
from agent_envs.evaluation.statistics.rates import clustered_variance, number_names
from agent_envs.evaluation.statistics.student import t_quantile, t_tail
from benchmarks.training_runs import mean_line, over_seeds, points, report_seeds, summarise_shares

CLAIMS, PLAN = (Path(__file__).with_name(f"{name}.toml") for name in ("claims", "real_curves"))
OUTCOMES_FILE = "test_outcomes.jsonl"  # of a trainer's run; trainers load torch, and docs.generate does without
ALPHA = 0.05
Outcomes = dict[str, dict[str, float]]  # by measure and task


class ClaimTable:
    """The claims of the plan's file, with their seeds.

    Attributes:
        table: as the file has it.
        rehearsal: whether runs are cut down, with one seed.
    """

    def __init__(self, rehearsal: bool) -> None:
        """Read the plan's file."""
        self.table = tomllib.loads(PLAN.read_text(encoding="utf-8"))
        self.rehearsal = rehearsal

    def seeds(self, claim: str) -> tuple[int, ...]:
        """Return a claim's seeds: its own, or so many by the rule of its start's preset; 0 alone in a rehearsal."""
        row = self.table["claim"][claim]
        if self.rehearsal or not isinstance(row["seeds"], int):
            return (0,) if self.rehearsal else tuple(row["seeds"])
        return report_seeds(self.table["start"][row["start"]]["preset"].partition("/")[2], row["seeds"])

    def digest(self, claim: str) -> str:
        """Return the sha256 of all that a claim's runs are set by in the plan's file: not of its words, nor of estimates."""
        row = self.table["claim"].get(claim, {})
        names = {row.get("start"), *row.get("starts", ()), *(arm.get("start") for arm in row.get("arm", {}).values())}
        starts = {name: start for name, start in self.table["start"].items() if name in names}
        shared = [self.table[name] for name in ("common", "imitation", "reinforcement")]
        text = json.dumps([row, starts, shared], sort_keys=True)
        words = ("says", "axis", "minutes")
        settings = json.loads(text, object_hook=lambda row: {key: row[key] for key in row if key not in words})
        return hashlib.sha256(json.dumps(settings).encode()).hexdigest()

    def check(self, file: Mapping[str, Any], name: str) -> None:
        """Raise UsageError where a file of figures has runs of another plan.

        Raises:
            UsageError: the message names the file and the claims.
        """
        others = [claim for claim, row in file["claims"].items() if row.get("plan") != self.digest(claim)]
        if others:
            raise UsageError(f"{name} has {', '.join(others)} by another plan: play anew, into another folder")


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


def planned_leads(plan: ClaimTable) -> list[PlannedLead]:
    """Return all leads that a plan has, in order."""
    leads = []
    for claim, row in plan.table["claim"].items():
        first, *others = row.get("arm", {"": {}})
        for measure in row.get("measures", ["after"]):
            for arm in others:
                one, other = (row["arm"][name].get("start", row["start"]) for name in (first, arm))
                leads.append(PlannedLead(claim, (first, arm), measure, one != other))
    return leads


def comparisons(plan: ClaimTable) -> int:
    """Return the number of comparisons of docs/claims.md: the plan's leads, and those of tiny models."""
    claims = tomllib.loads(CLAIMS.read_text(encoding="utf-8"))["claim"]
    return len(planned_leads(plan)) + sum(len(claim["tiny"]) for claim in claims)


def smallest_lead(plan: ClaimTable, lead: PlannedLead) -> float:
    """Return the lead that the test finds with 80 % power: tasks drawn apart, half of them solved, nothing common to two arms.

    1 where there is none, as for one seed. Tasks that share a cluster, and seeds that differ, see less; arms that solve the
    same tasks see more.
    """
    row, seeds = plan.table["claim"][lead.claim], len(plan.seeds(lead.claim))
    tasks = row.get("budget", {}).get("evaluation.test-tasks", plan.table["common"]["evaluation.test-tasks"])
    return smallest(math.sqrt((1 + lead.in_gains) * 0.5 / (tasks * seeds)), seeds, comparisons(plan))


def smallest(error: float, units: int, count: int) -> float:
    """Return the lead that a test with this standard error finds with 80 % power, one of so many; 1 where there is none."""
    if units < 2:
        return 1.0
    return min(1.0, (t_quantile(1 - ALPHA / count / 2, units - 1) + t_quantile(POWER, units - 1)) * error)


def power_line(plan: ClaimTable) -> str:
    """Describe what the plan can see, before any run: the smallest leads, claim by claim."""
    claims = dict[str, float]()
    for lead in planned_leads(plan):
        claims[lead.claim] = max(claims.get(lead.claim, 0.0), smallest_lead(plan, lead))
    parts = ", ".join(f"{claim} {100 * value:.0f}" for claim, value in claims.items())
    return f"smallest leads that it can show, in points: {parts}"


def outcomes_of(folder: Path) -> Outcomes:
    """Return a run's outcomes by measure and "CLUSTER/TASK" as JSON; {} where it has none."""
    path, table = folder / OUTCOMES_FILE, dict[str, dict[str, float]]()
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        row = json.loads(line)
        table.setdefault(row["measure"], {})[json.dumps([row["cluster"], row["task"]])] = row["success"]
    return table


def measured_lead(
    lead: PlannedLead, runs: Mapping[str, Mapping[int, Outcomes]], count: int, planned: float
) -> dict[str, Any] | None:
    """Return a lead with its test over seeds and the tasks that both arms have; None where they share no seed.

    Args:
        lead: which.
        runs: outcomes by arm and seed.
        count: comparisons that it is one of.
        planned: smallest lead that the plan could see.
    """
    values, by_seed, seeds, clusters = list[float](), dict[int, float](), list[str](), list[str]()
    for seed in sorted(runs[lead.arms[0]].keys() & runs[lead.arms[1]].keys()):
        first, other = (runs[arm][seed] for arm in lead.arms)
        if tasks := _common(first, other, lead):
            values += (own := [_score(first, task, lead) - _score(other, task, lead) for task in tasks])
            by_seed[seed] = statistics.fmean(own)
            seeds += [str(seed)] * len(tasks)
            clusters += [json.loads(task)[0] for task in tasks]
    if not values:
        return None
    units = min(len(by_seed), len(set(clusters)))
    error, difference = two_way_error(values, seeds, clusters), statistics.fmean(values)
    return {
        "difference": round(difference, 4),
        "error": error,
        "units": units,
        "interval": interval_of(difference, error, units, count, lead),
        "p_value": p_value(difference, error, units),
        "planned_detectable": round(planned, 4),
        "over_seeds": over_seeds(by_seed),
    }


def interval_of(difference: float, error: float, units: int, count: int, lead: PlannedLead) -> list[float]:
    """Return a lead's interval over so many seeds (clusters, if fewer), as one of so many comparisons."""
    most = 1 + lead.in_gains
    half = t_quantile(1 - ALPHA / count / 2, units - 1) * error if units > 1 else 2 * most
    return [round(max(-most, difference - half), 4), round(min(most, difference + half), 4)]


def two_way_error(values: Sequence[float], seeds: Sequence[str], clusters: Sequence[str]) -> float:
    """Return the standard error of the mean of values that share seeds and clusters of tasks."""
    both = [json.dumps(pair) for pair in zip(seeds, clusters, strict=True)]
    one, two, shared = (clustered_variance(np.array(values), number_names(x))[0] for x in (seeds, clusters, both))
    return math.sqrt(max(one, two, one + two - shared))


def p_value(difference: float, error: float, units: int) -> float:
    """Return the two-sided p value of a lead over so many seeds (clusters, if fewer); 1 for one of them, and without spread."""
    return min(1.0, 2 * t_tail(abs(difference) / error, units - 1)) if error and units > 1 else 1.0


def _common(first: Outcomes, other: Outcomes, lead: PlannedLead) -> list[str]:
    """Return the tasks that two runs have in all that a lead needs."""
    measures = (lead.measure, "before") if lead.in_gains else (lead.measure,)
    return sorted(set.intersection(*(set(run.get(name, {})) for run in (first, other) for name in measures)))


def _score(run: Outcomes, task: str, lead: PlannedLead) -> float:
    """Return a run's success on a task; in gains, less that before."""
    return run[lead.measure][task] - (run["before"][task] if lead.in_gains else 0)


def verdicts(leads: Sequence[tuple[float, float, float]], count: int) -> list[tuple[float, float, str]]:
    """Return each lead's p value after Holm's correction, least and most, with the verdict.

    Args:
        leads: difference, and the least and the most that its p value can be by what was kept (equal where all was).
        count: comparisons that they are of; the others count as untried, with the p value 1.
    """
    rest = [1.0] * (count - len(leads))
    least, most = (holm([*(row[place] for row in leads), *rest]) for place in (1, 2))
    return [(low, high, _verdict(row[0], low, high)) for row, low, high in zip(leads, least, most, strict=False)]


def _verdict(difference: float, least: float, most: float) -> str:
    """Return the verdict by the least and the most that a corrected p value can be."""
    if most < ALPHA:
        return "shown" if difference > 0 else "the contrary is shown"
    return "not shown" if least >= ALPHA else "undecided: task outcomes were not kept"


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
                "plan": plan.digest(name),
                "arms": {arm: {"success": _successes(row, runs), "seeds": runs} for arm, runs in arms.items()},
                "leads": {},
            }
    rows, count = list[dict[str, Any]](), comparisons(plan)
    for lead in (lead for lead in leads if set(lead.arms) <= outcomes.get(lead.claim, {}).keys()):
        measured = measured_lead(lead, outcomes[lead.claim], count, smallest_lead(plan, lead))
        if measured is not None:
            seeds, planned = len(measured["over_seeds"]["by_seed"]), len(plan.seeds(lead.claim))
            part = f"{seeds} of {planned} seeds" * (seeds < planned)
            measured["verdict"] = "a rehearsal" if plan.rehearsal else part
            claims[lead.claim]["leads"][lead.name] = measured
            rows += [] if measured["verdict"] else [measured]
    rulings = verdicts([(row["difference"], row["p_value"], row["p_value"]) for row in rows], count)
    for row, (_, p_holm, verdict) in zip(rows, rulings, strict=True):
        row.update(p_holm=p_holm, verdict=verdict)
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
            f"  {which}: {100 * lead['difference']:+.1f} [{low:+.1f}, {high:+.1f}], p {lead['p_value']:.2g} of this one: "
            f"{lead['verdict']}; planned: {100 * lead['planned_detectable']:.0f}; over seeds {points(lead['over_seeds'])}"
        )


def _percents(shares: Sequence[float | None]) -> str:
    """Return shares as per cent, those that are known; "-" for none."""
    return ", ".join(f"{100 * share:.0f}" for share in shares if share is not None) or "-"
