"""Mutations of an accepted submission, made from the schemas of its rows: a new field of a row type needs no word here."""

import gzip
import hashlib
import json
import math
import random
import typing
from collections import Counter, namedtuple
from copy import deepcopy

from agent_envs.base.serialization import canonical_json, digest, sha256_text
from agent_envs.base.strict_model import Strict
from agent_envs.evaluation.submission.episode_rows import AttemptRow, EpisodeRow, ExternalRow
from agent_envs.evaluation.submission.models import Manifest, Submission
from agent_envs.evaluation.submission.replay_pool import Checks
from agent_envs.evaluation.verification.verify import ACCEPTED, How, verify

KINDS = {
    "episode": EpisodeRow,
    "attempt": AttemptRow,
    "external": ExternalRow,
    "submission": Submission,
    "manifest": Manifest,
}
SEALS = ("stale", "hashed", "chained")  # the manifest as it was; hashes made again; hashes and the row's own chain
Mutation = namedtuple("Mutation", "kind field seal path text")
_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
_ODD = ("", " ", "x", "\u202e", "\0", "é", "0", "true", "<b>")


def fields_of(model, above=()):
    """Yield the path of every field of a model and of the models in it; `*` stands for a place in a list."""
    for name, field in model.model_fields.items():
        path = (*above, field.alias or name)
        yield path
        many = typing.get_origin(field.annotation) is tuple
        for part in _models_in(field.annotation):
            yield from fields_of(part, (*path, "*") if many else path)


def _models_in(annotation):
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        yield annotation
    elif typing.get_origin(annotation) is not dict:
        for part in typing.get_args(annotation):
            yield from _models_in(part)


def changed(value, source):
    """Return another value than the given one: near to it, of its type, or of another."""
    for _ in range(50):
        other = _other(deepcopy(value), source)
        if (type(other), other) != (type(value), value):
            return other
    return "another"


def _other(value, source):
    if source.random() < 0.05:
        return source.choice([None, 0, 1, -1, 0.5, math.nan, "", "x", [], {}, [[]], True])
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return source.choice([value + 1, value - 1, 0, 1, -value, 2 * value + 1, float(value), 2**53 + 2])
    if isinstance(value, float):
        near = [math.nextafter(value, 9e9), value + 1.0, value - 1.0, 1.0, -value, 0.0, 2 * value, int(value)]
        return source.choice(near)
    for kind, change in ((str, _other_text), (list, _other_list), (dict, _other_dict)):
        if isinstance(value, kind):
            return change(value, source)
    return source.choice([0, "", "x", 1.0, False])


def _other_text(value, source):
    if len(value) in (16, 64) and set(value) <= set("0123456789abcdef") and source.random() < 0.8:
        at = source.randrange(len(value))
        return value[:at] + source.choice("0123456789abcdef") + value[at + 1 :]
    at, odd = source.randrange(len(value) + 1), source.choice(_ODD)
    near = [value + odd, odd + value, value[:at] + odd + value[at:], value[:at], value.swapcase(), value[1:], odd]
    return source.choice(near)


def _other_list(value, source):
    if not value:
        return [source.choice(["", "x", 0, {}])]
    at = source.randrange(len(value))
    swapped = list(value)
    swapped[at], swapped[-1] = swapped[-1], swapped[at]
    within = [*value[:at], changed(value[at], source), *value[at + 1 :]]
    return source.choice([value[:at] + value[at + 1 :], [*value, value[at]], swapped, [], within])


def _other_dict(value, source):
    if not value or source.random() < 0.3:
        return {**value, source.choice(["x", "reward", "é", ""]): source.choice([0, 0.0, 1.0, "x"])}
    name = source.choice(sorted(value))
    rest = {key: item for key, item in value.items() if key != name}
    return source.choice([rest, {**rest, name: changed(value[name], source)}, {**rest, f"{name}x": value[name]}])


def places(data, path):
    """Return (container, key) of everything in `data` that a field's path leads to."""
    if path[0] == "*":
        return [place for item in data for place in places(item, path[1:])] if isinstance(data, list) else []
    if not isinstance(data, dict) or path[0] not in data:
        return []
    return [(data, path[0])] if len(path) == 1 else places(data[path[0]], path[1:])


def chain_again(row):
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

    def __init__(self, suite, folder, seed):
        self.suite, self.folder, self._source, self.memory = suite, folder, random.Random(seed), Checks()
        self.before = self.verdict()
        assert self.before.verdict == ACCEPTED, self.before.findings
        self._paths = {kind: [folder / f"{kind}.json"] for kind in ("submission", "manifest")}
        self._paths |= {"attempt": [folder / "attempts.jsonl"], "external": sorted(folder.glob("externals/*.gz"))}
        self._paths["episode"] = sorted(folder.glob("episodes/*/*.gz"))
        self.fields = [(kind, path) for kind, model in KINDS.items() for path in fields_of(model)]

    def verdict(self, full=False):
        """Return the verdict on the folder as it stands; rows that were checked before are not replayed again unless `full`."""
        return verify(self.folder, How(self.suite, jobs=0, memory=None if full else self.memory))

    def mutations(self, count):
        """Yield mutations, each field in its turn."""
        while count:
            for kind, path in self.fields:
                if count and (mutation := self._mutation(kind, path)) is not None:
                    count -= 1
                    yield mutation

    def judge(self, mutation, *, full=False):
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

    def outcome(self, verdict):
        """Return `rejected`, `unchanged` or `WRONG`: accepted with another score."""
        if verdict.verdict != ACCEPTED:
            return "rejected" if verdict.findings else "cannot tell"
        return "unchanged" if scores_of(verdict) == scores_of(self.before) else "WRONG"

    def _mutation(self, kind, path):
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

    def _line(self, data, path, whole, chained):
        """Return the text of a row in which one field is another; None where there is no such field."""
        spots = places(data, path)
        if not spots:
            return None
        container, name = self._source.choice(spots)
        container[name] = changed(container[name], self._source)
        try:
            if chained:
                chain_again(data)
            return (_pretty(data) if whole else canonical_json(data)).encode("utf-8", "surrogatepass")
        except ValueError:  # NaN has no canonical form
            return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def scores_of(verdict):
    """Return everything that a board would show of a verdict's numbers."""
    rows = [(item.key, item.status, item.success, item.total, item.turns) for item in verdict.episodes]
    return verdict.score, verdict.entries, rows


def _pretty(data):
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def run(campaign, count, sample):
    """Return what became of `count` mutations; a sample of them is verified in full as well, and must come to the same."""
    table, wrong, differing = {}, [], []
    for number, mutation in enumerate(campaign.mutations(count), start=1):
        verdict = campaign.judge(mutation)
        outcome, name = campaign.outcome(verdict), f"{mutation.kind}.{mutation.field}"
        table.setdefault(name, Counter())[outcome] += 1
        if outcome == "WRONG":
            wrong.append(f"{name} {mutation.seal} {mutation.path}")
        if number % max(count // max(sample, 1), 1) == 0:
            full = campaign.judge(mutation, full=True)
            parts = [(each.verdict, each.findings, scores_of(each)) for each in (full, verdict)]
            if parts[0] != parts[1]:
                differing.append(f"{name} {mutation.seal} {mutation.path}")
    return {
        "differing": differing, "accepted_wrongly": wrong, "outcomes": dict(sum(table.values(), Counter())),
        "episodes": len(campaign.before.episodes), "fields": table,
    }  # fmt: skip
