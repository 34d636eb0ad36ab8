"""A verified submission in the forms of others: the hub's evaluation results as YAML, and episodes as Parquet."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import agent_envs
from agent_envs.base.caches import write_atomically
from agent_envs.base.errors import MissingExtra, UsageError
from agent_envs.evaluation.submission.replaying import places_of
from leaderboard.standings import Entrant, Outcomes

_DATASET = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_URL = re.compile(r"https?://[!-~]{1,500}")


def hub_results(entrant: Entrant, suite: str, dataset: str, source: str = "") -> str:
    """Return the score as YAML for a model's `.eval_results/` on the Hugging Face hub; UsageError for malformed words.

    Its strings are written as JSON writes them, which YAML reads alike, so that nobody's name can add a field.

    Args:
        entrant: the verified submission.
        suite: the suite's name.
        dataset: the benchmark's data set on the hub, `owner/name`; its `eval.yaml` names the suite as a task.
        source: where the submission or its page can be read.

    Raises:
        UsageError: one of them is malformed.
    """
    if not _DATASET.fullmatch(dataset):
        raise UsageError(f"export: --dataset {dataset[:80]!r} is no OWNER/NAME of the hub")
    if source and not _URL.fullmatch(source):
        raise UsageError(f"export: --source {source[:80]!r} is no http address")
    verdict, score = entrant.verdict, entrant.verdict.score
    assert score is not None
    bounds = f"95 % interval {100 * score.low:.1f} to {100 * score.high:.1f}"
    notes = f"{entrant.submission.agent.name} on {suite}, {bounds}; replayed with agent-envs {agent_envs.__version__}; "
    rows: list[tuple[int, str, Any]] = [
        (0, "dataset", None), (1, "id", dataset), (1, "task_id", suite.partition("@")[0]),
        (0, "value", round(100 * score.value, 4)), (0, "date", entrant.submission.date),
        *([(0, "source", None), (1, "url", source), (1, "name", "agent-envs submission")] if source else []),
        (0, "notes", notes + f"submission {verdict.submission}"),
    ]  # fmt: skip
    lines = [f"{'  ' * depth}{name}:{'' if value is None else ' ' + json.dumps(value)}" for depth, name, value in rows]
    return "".join(f"{'- ' if number == 0 else '  '}{line}\n" for number, line in enumerate(lines))


def episode_columns(entrant: Entrant, outcomes: Outcomes) -> dict[str, list[Any]]:
    """Return every planned episode as columns: its place in the plan, and the result of the replay."""
    episodes = {item.key: item for item in entrant.verdict.episodes}
    plan = [(place, episodes[key]) for key, place in places_of(outcomes.suite)]
    return {
        "submission": [entrant.verdict.submission] * len(plan),
        "key": [item.key for _, item in plan],
        "entry": [place.entry.label for place, _ in plan],
        "env_id": [place.entry.env_id for place, _ in plan],
        "task": [place.header.task_id for place, _ in plan],
        "cluster": [place.cluster for place, _ in plan],
        "trial": [place.trial for place, _ in plan],
        "status": [item.status for _, item in plan],
        "success": [item.success for _, item in plan],
        "return": [item.total for _, item in plan],
        "turns": [item.turns for _, item in plan],
    }


def write_parquet(entrants: Sequence[Entrant], outcomes: Outcomes, out: Path) -> int:
    """Write all planned episodes of submissions of one suite as Parquet; return the rows; MissingExtra without pyarrow.

    Raises:
        MissingExtra: pyarrow is missing.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("pyarrow", "data", "export to Parquet") from error
    tables = [pyarrow.table(episode_columns(entrant, outcomes)) for entrant in entrants]
    table = pyarrow.concat_tables(tables)
    write_atomically(out, lambda file: pyarrow.parquet.write_table(table, file, compression="zstd"))
    return int(table.num_rows)
