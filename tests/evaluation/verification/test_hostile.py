"""A submission is a stranger's: whatever lies in its directory is refused in one line that names the file or the field."""

import gzip
import json
import os
import re
import shutil
import socket
import tracemalloc

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.submission.episode_rows import ExternalRow, row_text
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.submission.replay_pool import Checks
from agent_envs.evaluation.suites.suite import Suite, suite_text
from agent_envs.evaluation.verification import directory
from agent_envs.evaluation.verification.verify import How, verify
from tests.evaluation.submission.packing import gzipped, play, small_suite
from tests.evaluation.verification.changes import change_rows, reseal, shards_of
from tests.evaluation.verification.mutations import chain_again
from tests.rows import check_each


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Return (suite, folder, memory) of an accepted submission: six episodes of two entries."""
    place = tmp_path_factory.mktemp("honest")
    suite = small_suite(tasks=3, trials=1, sweep=("retriever", ("bm25", "oracle")))
    play(place / "run", suite)
    pack_run(place / "run", place / "packed")
    memory = Checks()
    assert verify(place / "packed", How(suite, jobs=0, memory=memory)).verdict == "accepted"
    return suite, place / "packed", memory


def _edit(path, old, new, count=1):
    """Return a change of a small file's text."""

    def change(folder):
        text = (folder / path).read_text(encoding="utf-8")
        assert old in text
        (folder / path).write_text(text.replace(old, new, count), encoding="utf-8")
        reseal(folder)

    return change


def _rows(change, at=0):
    return lambda folder: change_rows(folder, change, at)


def _row(change, number=0):
    """Return a change of one row, which `change` gets as a dict."""

    def both(rows):
        change(rows[number])
        return rows

    return _rows(both)


def _shard(data):
    def change(folder):
        shards_of(folder)[0].write_bytes(data(shards_of(folder)[0].read_bytes()) if callable(data) else data)
        reseal(folder)

    return change


def _add(name, text=b"x"):
    def change(folder):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text)

    return change


def _listed(name, text):
    return lambda folder: (_add(name, text)(folder), reseal(folder))


def _answer(folder):
    """An answer in the right form, of a service that the environment has not."""
    row = ExternalRow(key="ab" * 32, port="judge", request={}, response={})
    _listed("externals/0000.jsonl.gz", gzipped(row_text(row).encode() + b"\n", level=0))(folder)


def _date(day):
    def change(folder):
        text = (folder / "submission.json").read_text(encoding="utf-8")
        changed = re.sub(r'^  "date": "[0-9-]+"', f'  "date": "{day}"', text, flags=re.MULTILINE)
        assert changed != text
        (folder / "submission.json").write_text(changed, encoding="utf-8")
        reseal(folder)

    return change


def _link(folder):
    (folder / "report.md").symlink_to("/etc/passwd")


def _linked_folder(folder):
    shutil.move(folder / "episodes", folder.parent / f"{folder.name}-elsewhere")
    (folder / "episodes").symlink_to(folder.parent / f"{folder.name}-elsewhere")


def _hard_link(folder):
    os.link(folder / "suite.json", folder.parent / f"{folder.name}-twin")


def _pipe(folder):
    os.mkfifo(folder / "report.md")


def _pipe_for_submission(folder):
    (folder / "submission.json").unlink()
    os.mkfifo(folder / "submission.json")


def _socket(folder):
    place = os.getcwd()
    os.chdir(folder)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("s")
    finally:
        os.chdir(place)


def _sparse(name):
    def change(folder):
        (folder / name).parent.mkdir(exist_ok=True)
        with (folder / name).open("wb") as file:
            file.truncate(10**9)
        rows = json.loads((folder / "manifest.json").read_bytes())
        files = {row["path"]: row for row in rows["files"]}
        files[name] = {"path": name, "bytes": 10**9, "sha256": "0" * 64}
        rows["files"] = [files[path] for path in sorted(files)]
        text = json.dumps(rows, indent=2, sort_keys=True) + "\n"
        (folder / "manifest.json").write_text(text, encoding="utf-8")

    return change


def _traversal(folder):
    rows = json.loads((folder / "manifest.json").read_bytes())
    rows["files"][0]["path"] = "../../etc/passwd"
    (folder / "manifest.json").write_text(json.dumps(rows, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _ones(rows):
    """A winner's journal: every last reward is 1 and everything else fits it."""
    for row in rows:
        row["turns"][-1] |= {"reward": 1.0, "terms": {name: 1.0 for name in row["turns"][-1]["terms"]}}
        row["result"] = {"return": 1.0, "success": True}
    return rows


def _turn(**changes):
    return _row(lambda row: row["turns"][0].update(changes))


def _other_folder(folder):
    """The first entry's rows under the second entry, and the other way round."""
    one, two = shards_of(folder)
    texts = one.read_bytes(), two.read_bytes()
    one.write_bytes(texts[1])
    two.write_bytes(texts[0])
    reseal(folder)


def _gap(folder):
    path = shards_of(folder)[0]
    path.rename(path.with_name("0001.jsonl.gz"))
    reseal(folder)


def _unplayed(row):
    row |= {"status": "fault", "turns": [], "prompt_sha256": "", "result": {"return": 0.0, "success": False}}
    chain_again(row)


HOSTILE = {
    "a path out of the folder": (_traversal, "manifest.json: files.0.path"),
    "a link to a file": (_link, "report.md: a link"),
    "a linked folder": (_linked_folder, "episodes: a link"),
    "a hard link": (_hard_link, "a hard link"),
    "a pipe": (_pipe, "neither a file nor a folder"),
    "a pipe in place of a file": (_pipe_for_submission, "submission.json: "),
    "a socket": (_socket, "neither a file nor a folder"),
    "a file that is not listed": (_add("notes.txt"), "notes.txt: not in manifest.json"),
    "a hidden file": (_add(".git/config"), r"\.git/config: not in manifest.json"),
    "a name that hides": (_add("a\u202e\x1b[31m<script>.md"), r"\\u202e\\x1b\[31m<script>.md: not in manifest.json"),
    "a name that is no text": (_add(os.fsdecode(b"\xff\xfe")), r"\\udcff\\udcfe: not in manifest.json"),
    "deep folders": (_add("a/b/c/d"), "too deep"),
    "a file that no submission has": (lambda folder: (_add("run.py")(folder), reseal(folder)), "holds no such file"),
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "manifest.json: there is none"),
    "no suite": (lambda folder: ((folder / "suite.json").unlink(), reseal(folder)), "suite.json: there is none"),
    "a gigabyte of report": (_sparse("report.md"), "report.md: 1,000,000,000 bytes"),
    "a gigabyte of answers": (_sparse("externals/0000.jsonl.gz"), "externals/0000.jsonl.gz: 1,000,000,000 bytes"),
    "another size": (_sparse("attempts.jsonl"), "attempts.jsonl: 1,000,000,000 bytes"),
    "a gzip bomb": (_shard(lambda _: gzipped(b"\n" * 50_000_000)), "more rows"),
    "one endless line": (_shard(lambda _: gzipped(b"x" * 40_000_000, level=9)), "more rows or bytes"),
    "several members": (_shard(lambda data: data + data), "something follows its one member"),
    "bytes behind it": (_shard(lambda data: data + b"\0"), "something follows its one member"),
    "another header": (_shard(lambda data: gzip.compress(gzip.decompress(data), mtime=99)), "its header is another"),
    "a cut file": (_shard(lambda data: data[:-3]), "it is cut"),
    "a zip": (_shard(b"PK\x03\x04" + b"\0" * 100), "it is none"),
    "nothing": (_shard(b""), "it is none"),
    "NaN": (_row(lambda row: row["turns"][0].update(reward=float("nan"))), "the row|reward"),
    "depth": (_shard(gzipped(b"[" * 100_000 + b"\n", level=0)), "the row"),
    "a key twice": (_shard(lambda data: gzipped(gzip.decompress(data).replace(b'"trial":0', b'"trial":0,"trial":0', 1))),
                    "not in canonical form"),
    "a key twice in a small file": (_edit("submission.json", '"licence": ""', '"licence": "x", "licence": ""'),
                                    "not in the form"),
    "bidi in a name": (_edit("submission.json", '"name": "heuristic"', '"name": "a\u202eb"'), "agent.name: .*bidirectional"),
    "control in a name": (_edit("submission.json", '"name": "heuristic"', '"name": "a\\u001b[31m"'), "agent.name"),
    "a script for a url": (_edit("submission.json", '"url": ""', '"url": "javascript:alert(1)"'), "agent.url"),
    "NaN in a small file": (_edit("submission.json", '"options": {}', '"options": {"t": NaN}'), "submission.json"),
    "another version of the suite": (_edit("submission.json", '"version": "0.0"', '"version": "0.1"'), "suite.version is 0.1"),
    "another suite": (_edit("submission.json", '"id": "adhoc"', '"id": "other"'), "suite.id is other"),
    "an easier suite": (_edit("suite.json", '"trials":1', '"trials":2'), "suite.json: not the text"),
    "a journal of ones": (_rows(_ones), r"turns\[\d\].reward"),
    "an edited reward": (_turn(reward=0.5), "reward|result"),
    "an edited observation": (_turn(observation_sha256="0" * 64), r"turns\[0\].observation_sha256"),
    "an edited action": (_turn(action="<search>something else</search>"), r"turns\[0\]"),
    "an action of another kind": (_turn(action=3), "turns.0.action"),
    "a longer action than any is": (_turn(action="x" * 1_000_001), "action"),
    "an edited event": (_turn(events=["all is well"]), r"turns\[0\].events"),
    "a note of a cut that was none": (_turn(events=["action cut to 9 of 10 characters"]), "cannot be true"),
    "an edited context": (_turn(context="replace"), r"turns\[0\].context"),
    "another agent of the environment": (_turn(agent="agent_1"), r"turns\[0\].agent"),
    "another number of a turn": (_turn(t=2), "numbered"),
    "another prompt": (_row(lambda row: row.update(prompt_sha256="0" * 64)), "prompt_sha256"),
    "another seed": (_row(lambda row: row.update(seed=row["seed"] ^ 1)), "seed"),
    "another key": (_row(lambda row: row.update(key="0" * 16)), "is not planned"),
    "another task": (_row(lambda row: row.update(task="x")), "task"),
    "another task's content": (_row(lambda row: row.update(task_digest="0" * 64)), "task_digest"),
    "another cluster": (_row(lambda row: row.update(cluster="x")), "cluster"),
    "another trial": (_row(lambda row: row.update(trial=1)), "trial"),
    "another environment": (_row(lambda row: row["env"].update(id="agent_envs/Count-v0")), "env.id"),
    "another spec": (_row(lambda row: row["env"].update(spec_digest="0" * 64)), "env.spec_digest"),
    "another limit": (_row(lambda row: row["env"].update(turn_limit=9)), "env.turn_limit"),
    "an entry with HTML": (_row(lambda row: row.update(entry="<script>alert(1)</script>")), "entry"),
    "a success": (_row(lambda row: row["result"].update(success=not row["result"]["success"])), "result.success"),
    "an early end": (_row(lambda row: row.update(turns=row["turns"][:1])), "last turn|result"),
    "a status": (_row(lambda row: row.update(status="truncated")), "last turn"),
    "a fault that was none": (_row(_unplayed), "attempts.jsonl: status"),
    "a stale chain": (_row(lambda row: row.update(chain="0" * 64)), "chain"),
    "a field that writes lines of its own": (_turn(terms={"x\naccepted: submission": 1.0}), r"x\?accepted"),
    "a field that hides in a small file": (_edit("submission.json", '"models": []', '"mod\\nels": []'), r"mod\?els"),
    "a day before anybody played": (_date("0001-01-01"), "submission.json: date: .*before 2020"),
    "a day to come": (_date("2999-12-31"), "submission.json: date: .*later than tomorrow"),
    "a report that is no text": (_listed("report.md", b"fine \xff\xfe"), "report.md: byte 5 is no UTF-8"),
    "an answer that nobody asks for": (_answer, f"externals: key {'ab' * 32}: no episode asks for this answer"),
    "a blank name": (_edit("submission.json", '"name": "heuristic"', '"name": "\u3164"'), "agent.name: .*blank"),
    "a name of strokes": (_edit("submission.json", '"name": "heuristic"', '"name": "h%s"' % ("\u0336" * 60)),
                          "agent.name: .*marks"),
    "an attempt without an end": (_edit("attempts.jsonl", "\n", "", 9), "attempts.jsonl: line 1|has no end"),
    "a million empty attempts": (_edit("attempts.jsonl", "\n", "\n" * 1_000_000), "attempts.jsonl: line 2"),
    "more episodes than are planned": (_rows(lambda rows: rows * 30), "more rows than are planned"),
    "a missing episode": (_rows(lambda rows: rows[1:]), "the planned episode is not there"),
    "a doubled episode": (_rows(lambda rows: [rows[0], *rows[:-1]]), "there twice"),
    "the winner under every key": (_rows(lambda rows: [rows[0]] * len(rows)), "there twice"),
    "episodes in another order": (_rows(lambda rows: rows[::-1]), "not in the order of the suite"),
    "mixed entries": (_other_folder, "belongs to entry"),
    "a gap in the shards": (_gap, "0000.jsonl.gz comes first"),
    "attempts of nobody": (_edit("attempts.jsonl", '"key":"', '"key":"0'), "attempts.jsonl: line 1"),
    "a hidden last attempt": (_edit("attempts.jsonl", '"status":"terminated"', '"status":"fault"'), "status"),
    "attempts that begin late": (_edit("attempts.jsonl", '"attempt":1', '"attempt":2'), "numbered from 1"),
}  # fmt: skip


def test_what_no_submission_holds_is_refused_and_named(honest, tmp_path):
    suite, packed, memory = honest

    def check(name, change, message):
        folder = tmp_path / "".join(letter for letter in name if letter.isalnum())
        shutil.copytree(packed, folder)
        change(folder)
        verdict = verify(folder, How(suite, jobs=0, memory=memory))
        told = "\n".join(item.text() for item in verdict.findings)
        assert verdict.verdict == "rejected" and verdict.code == 1, told
        assert re.search(message, told), told
        assert verdict.score is None and verdict.entries == () and verdict.badges == ()
        assert all("\n" not in item.what and item.what.isprintable() for item in verdict.findings), told
        json.dumps(verdict.to_json())
        shutil.rmtree(folder)

    check_each(check, [(name, *row) for name, row in HOSTILE.items()])


def test_a_million_tiny_files_are_not_counted_to_the_end(honest, tmp_path, monkeypatch):
    suite, packed, memory = honest
    shutil.copytree(packed, tmp_path / "many")
    monkeypatch.setattr(directory, "MOST_FILES", 100)
    for number in range(300):
        (tmp_path / "many" / f"{number}").touch()
    verdict = verify(tmp_path / "many", How(suite, jobs=0, memory=memory))
    assert verdict.findings[0].what == "more than 200 files and folders"


def test_memory_stays_bounded_whatever_a_shard_unpacks_to(honest, tmp_path):
    suite, packed, memory = honest
    shutil.copytree(packed, tmp_path / "bomb")
    _shard(gzipped(b"\n" * 200_000_000, level=9))(tmp_path / "bomb")
    tracemalloc.start()
    try:
        verdict = verify(tmp_path / "bomb", How(suite, jobs=0, memory=memory))
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()
    assert verdict.verdict == "rejected"


def test_what_is_no_directory_is_a_wrong_call(honest, tmp_path):
    suite, packed, _ = honest
    (tmp_path / "link").symlink_to(packed)
    for path in (tmp_path / "nothing", packed / "suite.json", tmp_path / "link"):
        with pytest.raises(UsageError, match="no directory"):
            verify(path, How(suite))


def test_a_suite_that_is_not_here_cannot_be_judged(honest):
    suite, packed, _ = honest
    verdict = verify(packed, How())
    assert verdict.code == 3 and "adhoc@0.0 is not in this installation: --suite FILE" in verdict.unknown[0].what
    entry = suite.entries[0].model_copy(update={"weight": 2.0})
    other = Suite(**{**dict(suite), "entries": (entry, *suite.entries[1:])})
    assert suite_text(other) != suite_text(suite)
    assert "suite.digest" in verify(packed, How(other)).findings[0].what
