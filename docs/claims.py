"""The tables of docs/claims.md: the papers' claims (benchmarks/claims.toml), our figures of them, and verdicts by one rule.

Leads of SmolLM2-135M are those of figures-CARD.json in benchmarks/results, which `python -m benchmarks.real_curves` writes; a
rehearsal's are passed over. Files of tiny models kept each run's success with its interval over tasks, and not its outcome on
each task. So a lead's error is bounded: from below by the spread over seeds alone, from above by that and both arms' errors
over tasks, as if these never cancelled (of a run's end over its start, by that of its paired gain, as if seeds shared it). A
verdict is given where both bounds lead to it.
"""

import json
import math
import statistics
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.real_leads import (
    CLAIMS,
    ClaimTable,
    comparisons,
    interval_of,
    p_value,
    planned_leads,
    smallest,
    smallest_lead,
    verdicts,
)
from benchmarks.training_runs import over_seeds
from docs.sections import table

RESULTS = CLAIMS.parent / "results"
SIGNIFICANT = ("shown", "the contrary is shown")
NORMAL = 1.96  # a 95 % interval reaches at least so many standard errors
REAL_HEADS = [
    "claim", "the paper's figure", "comparison", "ours, points [interval, corrected]", "smallest lead it can show", "verdict",
]  # fmt: skip
TINY_HEADS = [
    "claim", "comparison", "seeds", "ours, points [95 % over seeds]", "smallest lead, at best", "p, corrected", "verdict",
]  # fmt: skip


def parts(results: Path = RESULTS) -> dict[str, str]:
    """Return the generated parts of the page by name, and of the README, with the real model's figures of a folder."""
    plan, claims = ClaimTable(rehearsal=False), tomllib.loads(CLAIMS.read_text(encoding="utf-8"))["claim"]
    tiny = [lead for claim in claims for lead in map(tiny_lead, claim["tiny"])]
    real = [lead for claim in claims for name in claim["real"] for lead in real_leads(plan, name, results)]
    count = max(len(tiny) + len(real), comparisons(plan))
    rows = [lead for lead in (*real, *tiny) if lead["least"] is not None]
    rulings = verdicts([(lead["difference"], lead["least"], lead["most"]) for lead in rows], count)
    for lead, (least, most, verdict) in zip(rows, rulings, strict=True):
        lead.update(least=least, most=most, verdict=verdict)
    others = [[claim["says"], claim["others"]] for claim in claims if claim["others"]]
    return {
        "the real model": _real_table(claims, real),
        "tiny models": _tiny_table(claims, iter(tiny), count),
        "others": table(["claim", "what others found"], others),
        "counts": f"{_counts('SmolLM2-135M', real)}\n{_counts('tiny models made from nothing', tiny)}",
    }


def _counts(model: str, leads: list[dict[str, Any]]) -> str:
    """Return a line of a list with how many comparisons have each verdict."""
    numbers = Counter(lead["verdict"] for lead in leads)
    return (
        f"- Of {len(leads)} comparisons of {model}: "
        + ", ".join(f"{numbers[name]} {name}" for name in sorted(numbers))
        + "."
    )


def real_leads(plan: ClaimTable, claim: str, results: Path = RESULTS) -> Iterator[dict[str, Any]]:
    """Yield a claim's planned leads, each as every card has it, rehearsals left out; one that none has is untried.

    Intervals are of the comparisons that the page has today, which a card's file did not know.

    Raises:
        UsageError: a card's runs are of another plan.
    """
    files = list[dict[str, Any]]()
    for path in sorted(results.glob("figures-*.json")):
        if not (file := json.loads(path.read_text(encoding="utf-8")))["rehearsal"]:
            plan.check(file, path.name)
            files.append(file)
    for lead in (lead for lead in planned_leads(plan) if lead.claim == claim):
        row = {
            "claim": claim,
            "name": lead.name,
            "smallest": smallest_lead(plan, lead),
            "least": None,
            "verdict": "not tried",
        }
        cards = [
            (file["about"]["card"], file["claims"][claim]["leads"][lead.name])
            for file in files
            if lead.name in file["claims"].get(claim, {}).get("leads", {})
        ]
        for card, figures in cards:
            whole = figures["over_seeds"]["by_seed"].keys() == set(map(str, plan.seeds(claim)))
            p = figures["p_value"] if whole else None
            difference, error, units = figures["difference"], figures["error"], figures["units"]
            interval = interval_of(difference, error, units, comparisons(plan), lead)
            yield row | figures | {"card": card, "interval": interval, "least": p, "most": p}
        if not cards:
            yield row


def tiny_lead(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a comparison of tiny models with the least and the most that its p value can be, by what its file kept."""
    file = _file(row["file"])
    if "lead" in row:
        by_seed, error = _at(file, row["lead"])["by_seed"], None
    else:
        (first, first_error), (other, other_error) = (_arm(file, *row[side]) for side in ("first", "other"))
        by_seed = {seed: first[seed] - other[seed] for seed in first.keys() & other.keys()}
        error = None if first_error is None or other_error is None else first_error + other_error
        if row["first"][0] == row["other"][0]:  # a run's end over its own start: the file has the paired interval
            gains = [run["gain"] for run in _at(file, row["first"][0])["seeds"]]
            error = statistics.fmean(_reach(gain["difference"], gain["interval"]) for gain in gains) / NORMAL
    seeds, difference = len(by_seed), statistics.fmean(by_seed.values())
    spread = statistics.stdev(by_seed.values()) / math.sqrt(seeds)
    # Seeds that agree bound nothing from below: tasks may differ by nothing as well.
    least = p_value(difference, spread, seeds) if spread or not difference else 0.0
    most = 1.0 if error is None else p_value(difference, math.hypot(spread, error), seeds)
    assert least <= most, f"{row['of']}: p is {least} at the least and {most} at the most"
    return {
        "of": row["of"] + (f"; {row['note']}" if "note" in row else ""),
        "file": row["file"],
        "difference": difference,
        "spread": spread,
        "over_seeds": over_seeds({int(seed): value for seed, value in by_seed.items()}),
        "least": least,
        "most": most,
    }


def _arm(file: Any, path: str, measure: str) -> tuple[dict[str, float], float | None]:
    """Return an arm's success by seed, and its standard error over tasks, at most; None where no interval was kept."""
    arm = _at(file, path)
    if "by_seed" in arm.get(measure, {}) and measure not in arm["seeds"][0]:
        return arm[measure]["by_seed"], None
    runs = {str(run["seed"]): run[measure] for run in arm["seeds"]}
    reach = statistics.fmean(_reach(run["success"], run["interval"]) for run in runs.values())
    return {seed: run["success"] for seed, run in runs.items()}, reach / NORMAL


def _reach(value: float, interval: list[float]) -> float:
    """Return how far an interval reaches from its value, on its longer side: the other may end at 0 or 1."""
    return max(interval[1] - value, value - interval[0])


@cache
def _file(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _at(file: Any, path: str) -> Any:
    """Return what a file of figures has at a path of names."""
    for name in path.split("/"):
        file = file[name]
    return file


def _real_table(claims: list[dict[str, Any]], leads: list[dict[str, Any]]) -> str:
    rows = []
    for claim in claims:
        head = [claim["says"], claim["paper"]]
        for lead in (lead for lead in leads if lead["claim"] in claim["real"]):
            card = f" ({lead['card']})" if "card" in lead else ""
            ours = _points(lead["difference"], lead["interval"], lead["verdict"]) if card else ""
            rows.append([*head, lead["name"] + card, ours, _smallest(lead["smallest"]), lead["verdict"]])
            head = ["", ""]
    command = "python -m benchmarks.real_curves --minutes 9 --out DIR --only"
    commands = "\n".join(f"{command} {name}" for claim in claims for name in claim["real"])
    return f"{table(REAL_HEADS, rows)}\n\n```\n{commands}\n```"


def _tiny_table(claims: list[dict[str, Any]], leads: Iterator[dict[str, Any]], count: int) -> str:
    rows = []
    for claim in claims:
        head = claim["says"]
        for lead in (next(leads) for _ in claim["tiny"]):
            seeds, p = len(lead["over_seeds"]["by_seed"]), f"{_p(lead['least'])} to {_p(lead['most'])}"
            ours = _points(lead["difference"], lead["over_seeds"]["interval"], lead["verdict"])
            link = f"[{lead['of']}](../benchmarks/results/{lead['file']}.json)"
            least = _smallest(smallest(lead["spread"], seeds, count))
            rows.append([head, link, str(seeds), ours, least, p.removeprefix("1 to "), lead["verdict"]])
            head = ""
    return table(TINY_HEADS, rows)


def _points(difference: float, interval: list[float] | None, verdict: str) -> str:
    """Format a lead in points of per cent, in bold where it is significant after correction."""
    bounds = "" if interval is None else " [{:+.1f}, {:+.1f}]".format(*(100 * bound for bound in interval))
    text = f"{100 * difference:+.1f}{bounds}"
    return f"**{text}**" if verdict in SIGNIFICANT else text


def _smallest(lead: float) -> str:
    """Format the smallest lead: "-" where no spread was seen, as nothing says then what could be."""
    if not lead:
        return "-"
    return "over 100" if lead >= 1 else f"{100 * lead:.1f}" if lead < 0.1 else f"{100 * lead:.0f}"


def _p(value: float) -> str:
    return "1" if value >= 0.995 else f"{value:.2g}"
