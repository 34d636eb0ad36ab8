"""The time that a board of many large submissions takes to build again, when every row of them was stepped before.

    python -m benchmarks.board_build --out DIR --rows 200 --result FILE

The submissions are made up: one run of 2,000 episodes (`sorting@1`, random), packed once and handed in under so many names. One
of them is stepped; the others' kept results, which their own first build would have left, are written from its. So every file
is read, hashed and compared as ever, and the pages hold what a real board's would, but for differences, which are all 0.
"""

import argparse
import json
import resource
import shutil
import time
from pathlib import Path

from agent_envs.base.serialization import sha256_file
from agent_envs.base.version import code_digest
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.runs.run_folder import Settings
from agent_envs.evaluation.submission.models import FileRow, Manifest, Submission, file_text
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.submission.replay_pool import Ledger, Replaying
from agent_envs.evaluation.suites.suite import load_suite
from leaderboard.board import boards_of
from leaderboard.decisions import decide
from leaderboard.pages import write_boards
from leaderboard.verify import How, verify

SUITE = "sorting@1"


def main() -> None:
    """Make the board, build it twice, and write what the second build took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="a new folder; AGENT_ENVS_CACHE should be one, too")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--result", type=Path, required=True)
    given = parser.parse_args()
    board, suite = given.out / "board", load_suite(SUITE)
    evaluate(suite, Settings("random"), folder=given.out / "run")
    pack_run(given.out / "run", given.out / "packed")
    first = verify(given.out / "packed", How(jobs=1, keep=True))
    replaying = Replaying(suite, None, 1, flags=True, keep=code_digest())
    known = Ledger(first.submission, replaying)
    known.close()
    for number in range(given.rows):
        name = _clone(given.out / "packed", board / "submissions", f"agent {number}")
        ledger = Ledger(name, replaying)
        for line, checked in known._known.items():
            ledger._keep(line, checked)
        ledger.close()
        decide(board, name, "accepted", "", "benchmarks.board_build")
    (board / "boards").mkdir(parents=True, exist_ok=True)
    (board / "boards" / "many.toml").write_text(f'title = "Many"\nsuite = "{SUITE}"\n', encoding="utf-8")
    told = {}
    for turn in ("first", "again"):
        before, start = _cpu(), time.perf_counter()
        boards = list(boards_of(board, How(jobs=1), lambda line: None))
        read = _cpu() - before
        write_boards(boards, given.out / "site")
        told[turn] = {"cpu_seconds": round(_cpu() - before, 1), "reading_and_standings": round(read, 1),
                      "wall_seconds": round(time.perf_counter() - start, 1)}  # fmt: skip
        assert [len(item.standings.rows) for item in boards] == [given.rows], boards[0].left[:3]
    size = sum(path.stat().st_size for path in (given.out / "site").rglob("*") if path.is_file())
    row = {"command": f"python -m benchmarks.board_build --rows {given.rows}", "rows": given.rows,
           "episodes_a_row": len(first.episodes), "site_megabytes": round(size / 1e6, 1), "builds": told}  # fmt: skip
    given.result.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(row))


def _clone(packed: Path, target: Path, agent: str) -> str:
    """Copy a submission under another agent's name, and return its id."""
    draft = target / "draft"
    shutil.copytree(packed, draft)
    told = Submission.model_validate_json((draft / "submission.json").read_bytes())
    text = file_text(told.model_copy(update={"agent": told.agent.model_copy(update={"name": agent})}))
    (draft / "submission.json").write_text(text, encoding="utf-8")
    manifest = Manifest.model_validate_json((draft / "manifest.json").read_bytes())
    changed = FileRow(path="submission.json", bytes=len(text.encode()), sha256=sha256_file(draft / "submission.json"))
    files = tuple(changed if row.path == changed.path else row for row in manifest.files)
    (draft / "manifest.json").write_text(file_text(manifest.model_copy(update={"files": files})), encoding="utf-8")
    name = sha256_file(draft / "manifest.json")
    draft.rename(target / name)
    return name


def _cpu() -> float:
    told = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in told)


if __name__ == "__main__":
    main()
