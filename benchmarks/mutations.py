"""Mutations of an accepted submission, made from the schemas of its rows: each is rejected, or leaves every score unchanged.

`python -m benchmarks.mutations --count 10000 --out benchmarks/results/mutations.json` exits 1 where one was accepted that
changed a score. A new field of a row type is mutated without a word here.
"""

import argparse
import gzip
import hashlib
import json
import math
import random
import sys
import tempfile
import time
import typing
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_envs.base.serialization import canonical_json, digest, sha256_text
from agent_envs.base.strict_model import Strict
from agent_envs.evaluation.submission.episode_rows import AttemptRow, EpisodeRow, ExternalRow
from agent_envs.evaluation.submission.models import Manifest, Submission
from agent_envs.evaluation.submission.replay_pool import Memory
from agent_envs.evaluation.suites.suite import Suite
from benchmarks.all_families import make_submission
from leaderboard.verify import ACCEPTED, How, Verdict, verify

KINDS: dict[str, type[Strict]] = {
    "episode": EpisodeRow, "attempt": AttemptRow, "external": ExternalRow, "submission": Submission, "manifest": Manifest,
}  # fmt: skip
SEALS = ("stale", "hashed", "chained")  # the manifest as it was; hashes made again; hashes and the row's own chain
_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
_ODD = ("", " ", "x", "\u202e", "\0", "é", "0", "true", "<b>")


@dataclass(frozen=True)
class Mutation:
    """One change: of which field, where, and how well it is covered up."""

    kind: str
    field: str
    seal: str
    path: str
    text: bytes


def fields_of(model: type[Strict], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every field of a model and of the models in it; `*` stands for a place in a list."""
    for name, field in model.model_fields.items():
        path = (*above, field.alias or name)
        yield path
        for part in _models_in(field.annotation):
            many = typing.get_origin(field.annotation) is tuple
            yield from fields_of(part, (*path, "*") if many else path)


def _models_in(annotation: Any) -> Iterator[type[Strict]]:
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        yield annotation
    elif typing.get_origin(annotation) is not dict:
        for part in typing.get_args(annotation):
            yield from _models_in(part)


def changed(value: Any, source: random.Random) -> Any:
    """Return another value than the given one: near to it, of its type, or of another."""
    for _ in range(50):
        other = _other(deepcopy(value), source)
        if (type(other), other) != (type(value), value):
            return other
    return "another"


def _other(value: Any, source: random.Random) -> Any:
    if source.random() < 0.05:
        return source.choice([None, 0, 1, -1, 0.5, math.nan, "", "x", [], {}, [[]], True])
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return source.choice([value + 1, value - 1, 0, 1, -value, 2 * value + 1, float(value), 2**53 + 2])
    if isinstance(value, float):
        return source.choice(
            [math.nextafter(value, 9e9), value + 1.0, value - 1.0, 1.0, -value, 0.0, 2 * value, int(value)]
        )
    if isinstance(value, str):
        return _other_text(value, source)
    if isinstance(value, list):
        return _other_list(value, source)
    if isinstance(value, dict):
        return _other_dict(value, source)
    return source.choice([0, "", "x", 1.0, False])


def _other_text(value: str, source: random.Random) -> str:
    if len(value) in (16, 64) and set(value) <= set("0123456789abcdef") and source.random() < 0.8:
        at = source.randrange(len(value))
        return value[:at] + source.choice("0123456789abcdef") + value[at + 1 :]
    at = source.randrange(len(value) + 1)
    odd = source.choice(_ODD)
    return source.choice(
        [value + odd, odd + value, value[:at] + odd + value[at:], value[:at], value.swapcase(), value[1:], odd]
    )


def _other_list(value: list[Any], source: random.Random) -> list[Any]:
    if not value:
        return [source.choice(["", "x", 0, {}])]
    at = source.randrange(len(value))
    swapped = list(value)
    swapped[at], swapped[-1] = swapped[-1], swapped[at]
    within = [*value[:at], changed(value[at], source), *value[at + 1 :]]
    return source.choice([value[:at] + value[at + 1 :], [*value, value[at]], swapped, [], within])


def _other_dict(value: dict[str, Any], source: random.Random) -> dict[str, Any]:
    if not value or source.random() < 0.3:
        return {**value, source.choice(["x", "reward", "é", ""]): source.choice([0, 0.0, 1.0, "x"])}
    name = source.choice(sorted(value))
    rest = {key: item for key, item in value.items() if key != name}
    return source.choice([rest, {**rest, name: changed(value[name], source)}, {**rest, f"{name}x": value[name]}])


def places(data: Any, path: tuple[str, ...]) -> list[tuple[Any, Any]]:
    """Return (container, key) of everything in `data` that a field's path leads to."""
    if path[0] == "*":
        return [place for item in data for place in places(item, path[1:])] if isinstance(data, list) else []
    if not isinstance(data, dict) or path[0] not in data:
        return []
    return [(data, path[0])] if len(path) == 1 else places(data[path[0]], path[1:])


def chain_again(row: dict[str, Any]) -> None:
    """Compute return and chain of a changed row again, as docs/submission.md says: an own writing of it."""
    try:
        row["result"]["return"] = math.fsum(turn["reward"] for turn in row["turns"]) + 0.0
    except (TypeError, KeyError, OverflowError):
        pass
    bare = ("turns", "result", "usage", "seconds", "agent_seconds", "chain")
    link = digest({name: value for name, value in row.items() if name not in bare})
    for turn in row.get("turns") if isinstance(row.get("turns"), list) else ():
        link = sha256_text(link + canonical_json(turn))
    row["chain"] = link


class Campaign:
    """Mutates one accepted submission, in its place, and puts it back after each verdict."""

    def __init__(self, suite: Suite, folder: Path, seed: int) -> None:
        """Take an accepted submission of a suite."""
        self.suite, self.folder, self._source = suite, folder, random.Random(seed)
        self.memory = Memory()
        self.before = self.verdict()
        assert self.before.verdict == ACCEPTED, self.before.findings
        self._paths = {
            "episode": sorted(folder.glob("episodes/*/*.gz")), "external": sorted(folder.glob("externals/*.gz")),
            "attempt": [folder / "attempts.jsonl"], "submission": [folder / "submission.json"],
            "manifest": [folder / "manifest.json"],
        }  # fmt: skip
        self.fields = [(kind, path) for kind, model in KINDS.items() for path in fields_of(model)]

    def verdict(self, full: bool = False) -> Verdict:
        """Return the verdict on the folder as it stands; rows that were checked before are not replayed again unless `full`."""
        return verify(self.folder, How(self.suite, jobs=0, memory=None if full else self.memory))

    def mutations(self, count: int) -> Iterator[Mutation]:
        """Yield mutations, each field in its turn."""
        made = 0
        while made < count:
            for kind, path in self.fields:
                mutation = self._mutation(kind, path)
                if mutation is not None and made < count:
                    made += 1
                    yield mutation

    def judge(self, mutation: Mutation, *, full: bool = False) -> Verdict:
        """Return the verdict on the mutated submission."""
        path, manifest = self.folder / mutation.path, self.folder / "manifest.json"
        old = path.read_bytes(), manifest.read_bytes()
        try:
            path.write_bytes(mutation.text)
            if mutation.seal != "stale" and path != manifest:
                rows = json.loads(old[1])
                for row in rows["files"]:
                    if row["path"] == mutation.path:
                        row |= {"bytes": len(mutation.text), "sha256": hashlib.sha256(mutation.text).hexdigest()}
                manifest.write_text(_pretty(rows), encoding="utf-8")
            return self.verdict(full or mutation.kind == "external")
        finally:
            path.write_bytes(old[0])
            manifest.write_bytes(old[1])

    def outcome(self, verdict: Verdict) -> str:
        """Return `rejected`, `unchanged` or `WRONG`: accepted with another score."""
        if verdict.verdict != ACCEPTED:
            return "rejected" if verdict.findings else "cannot tell"
        return "unchanged" if scores_of(verdict) == scores_of(self.before) else "WRONG"

    def _mutation(self, kind: str, path: tuple[str, ...]) -> Mutation | None:
        for _ in range(20):
            file = self._source.choice(self._paths[kind])
            packed, whole = file.suffix == ".gz", file.suffix == ".json"
            text = gzip.decompress(file.read_bytes()) if packed else file.read_bytes()
            lines = [text] if whole else text.split(b"\n")[:-1]
            at = self._source.randrange(len(lines))
            seal = self._source.choice(SEALS[kind == "manifest" :])
            line = self._line(json.loads(lines[at]), path, whole, kind == "episode" and seal == "chained")
            if line in (None, lines[at]):  # no such field here; or a chain that was made again is what it was
                continue
            lines[at] = line
            text = line if whole else b"".join(line + b"\n" for line in lines)
            if packed:
                text = _HEADER + gzip.compress(text, 6, mtime=0)[10:]
            return Mutation(kind, ".".join(path), seal, file.relative_to(self.folder).as_posix(), text)
        return None

    def _line(self, data: Any, path: tuple[str, ...], whole: bool, chained: bool) -> bytes | None:
        """Return the text of a row in which one field is another; None where there is no such field."""
        found = places(data, path)
        if not found:
            return None
        container, name = self._source.choice(found)
        container[name] = changed(container[name], self._source)
        try:
            if chained:
                chain_again(data)
            return (_pretty(data) if whole else canonical_json(data)).encode("utf-8", "surrogatepass")
        except ValueError:  # NaN has no canonical form
            return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def scores_of(verdict: Verdict) -> tuple[Any, ...]:
    """Return everything that a board would show of a verdict's numbers."""
    rows = [(item.key, item.status, item.success, item.total, item.turns) for item in verdict.episodes]
    return verdict.score, verdict.entries, rows


def _pretty(data: Any) -> str:
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def run(campaign: Campaign, count: int, sample: int, tell: bool = False) -> dict[str, Any]:
    """Return what became of `count` mutations; a sample of them is verified in full as well, and must come to the same."""
    table: dict[str, Counter[str]] = {}
    wrong, differing, started = [], [], time.process_time()
    for number, mutation in enumerate(campaign.mutations(count), start=1):
        verdict = campaign.judge(mutation)
        outcome = campaign.outcome(verdict)
        table.setdefault(f"{mutation.kind}.{mutation.field}", Counter())[outcome] += 1
        if outcome == "WRONG":
            wrong.append(f"{mutation.kind}.{mutation.field} {mutation.seal} {mutation.path}")
        if number % max(count // max(sample, 1), 1) == 0:
            full = campaign.judge(mutation, full=True)
            if (full.verdict, full.findings, scores_of(full)) != (
                verdict.verdict,
                verdict.findings,
                scores_of(verdict),
            ):
                differing.append(f"{mutation.kind}.{mutation.field} {mutation.seal} {mutation.path}")
        if tell and number % 500 == 0:
            print(f"{number} of {count} mutations", file=sys.stderr, flush=True)
    return {
        "mutations": count, "verified_in_full_too": sample, "differing": differing, "accepted_wrongly": wrong,
        "outcomes": dict(sum(table.values(), Counter())), "episodes": len(campaign.before.episodes),
        "cpu_seconds": round(time.process_time() - started, 1),
        "fields": {name: dict(sorted(counts.items())) for name, counts in sorted(table.items())},
    }  # fmt: skip


def main() -> None:
    """Run a campaign on a submission that is made for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--sample", type=int, default=200, help="of them verified in full too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        suite, folder = make_submission(Path(place), tasks=2)
        result = run(Campaign(suite, folder, given.seed), given.count, given.sample, tell=True)
    result = {"command": f"python -m benchmarks.mutations --count {given.count} --seed {given.seed}", **result}
    text = json.dumps(result, indent=1) + "\n"
    if given.out is not None:
        given.out.write_text(text, encoding="utf-8")
    print(text if given.out is None else json.dumps(result["outcomes"]))
    if result["accepted_wrongly"] or result["differing"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
