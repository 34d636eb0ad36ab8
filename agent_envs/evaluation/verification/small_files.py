"""Attempts are held against the episodes, and recorded answers are unpacked for the replay, which serves them."""

from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path

from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import Journal
from agent_envs.evaluation.submission.episode_rows import AttemptRow, ExternalRow, row_text
from agent_envs.evaluation.verification.directory import Directory, Rejected, parsed
from agent_envs.evaluation.verification.shards import read_lines

MOST_ANSWERS = 250_000


def attempt_findings(directory: Directory, statuses: Mapping[str, str]) -> Iterator[str]:
    """Yield the faults of attempts.jsonl, none after a key unplanned or out of order; Rejected for a malformed line.

    Args:
        directory: of the submission.
        statuses: of the planned episodes, as their rows say, in the order of the suite.

    Raises:
        Rejected: a line is no row.
    """
    order = {key: place for place, key in enumerate(statuses)}
    last: dict[str, AttemptRow] = {}
    before = -1
    for number, line in enumerate(BytesIO(directory.read("attempts.jsonl")), start=1):
        where = f"attempts.jsonl: line {number}"
        if not line.endswith(b"\n"):
            raise Rejected(f"{where} has no end")
        row = parsed(AttemptRow, line[:-1], where, row_text)
        if row.key not in order or order[row.key] < before:
            yield f"{where}: key: episode {row.key} is not planned, or not in the order of the suite"
            return
        before = order[row.key]
        if row.attempt != (last[row.key].attempt if row.key in last else 0) + 1:
            yield f"{where}: attempt: they are numbered from 1"
        if row.key in last and last[row.key].status not in ("fault", "budget"):
            yield f"{where}: status: nothing follows an attempt that came to its end"
        last[row.key] = row
    for key, status in statuses.items():
        ended = last[key].status if key in last else "missing"
        if ended != status:
            yield f"attempts.jsonl: status: the last attempt at episode {key} is {ended}, and its row says {status}"


def unpack_answers(directory: Directory, target: Path) -> list[str]:
    """Write recorded answers of outside services as a recording; return their keys; Rejected for a bad row or order.

    Raises:
        Rejected: a row is none, or is not where it belongs.
    """
    keys: list[str] = []
    with Journal(target) as journal:
        for path in directory.shards("externals"):
            for number, line in enumerate(lines_of(path, directory), start=1):
                where = f"{path.relative_to(directory.folder)}: line {number}"
                row = parsed(ExternalRow, line, where, row_text)
                if keys and row.key <= keys[-1]:
                    raise Rejected(f"{where}: key: rows are sorted by key, each once")
                keys.append(row.key)
                if len(keys) > MOST_ANSWERS:
                    raise Rejected(f"{where}: more than {MOST_ANSWERS:,} answers")
                answer = row.model_dump(mode="json")
                del answer["schema"]
                journal.append(answer)
    return keys


def lines_of(path: Path, directory: Directory) -> Iterator[bytes]:
    """Yield the lines of a shard, without their ends; Rejected where it breaks the format.

    Raises:
        Rejected: it is none.
    """
    try:
        yield from read_lines(path)
    except UsageError as error:
        raise Rejected(str(error).replace(f"{directory.folder}/", "")) from None
