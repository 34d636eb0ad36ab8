"""A suite says what is evaluated and is written before anyone plays; every run has one, and shared suites are files.

A suite names environments with their arguments, tasks with the digests of their content, clusters, trials, limits, the
predicate of success and weights. Episode keys and seeds are derived from it, so nobody can choose them, and every rate is
over the planned episodes. Two scores may be compared where the suites' digests are equal.
"""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import canonical_json, digest
from agent_envs.base.strict_model import Strict
from agent_envs.base.terminal import one_line
from agent_envs.core.trajectory import Trajectory, ends_by_agent

SUITE_SCHEMA: Literal["agent-envs/suite@1"] = "agent-envs/suite@1"
ADHOC = "adhoc"
DEMO = "demo"  # what cannot be played for a missing extra is left out of it; such runs are packed, and never ranked
MOST_BYTES = 64_000_000

Name = Annotated[str, Field(min_length=1, max_length=400)]  # ids of official tau2 tasks have up to 215
Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def _plain_id(env_id: str) -> str:
    """Return an id unchanged; ValueError for one with a module before it: what a stranger's file names is not imported."""
    if ":" in env_id:
        raise ValueError("it names a module to import; give the id alone, which its package registers")
    return env_id


class Feedback(Strict):
    """Feedback before every turn, see `agent_envs.wrappers.VerbalFeedback`: two scores differ where this does.

    Attributes:
        model: who gives it, `scripted:good` or a chat model's name.
        epsilon: how often it is to explore.
        templates: 12 hex digits that name the content of the two templates; "" where none is used.
        texts: these templates by `explore` and `exploit`, where they are not the package's.
        options: of the chat model.
    """

    model: Annotated[str, Field(min_length=1, max_length=200)]
    epsilon: Annotated[float, Field(ge=0, le=1)]
    templates: Annotated[str, Field(pattern=r"^([0-9a-f]{12})?$")] = ""
    texts: Annotated[dict[str, str], Field(max_length=2)] = {}
    options: dict[str, JsonValue] = {}

    @model_validator(mode="after")
    def _refuse_key(self) -> "Feedback":
        """Return the feedback; ValueError for options that name a key's variable, which no stranger's suite may choose."""
        if "api_key_env" in self.options:
            # A suite may be a stranger's, and names the server too.
            raise ValueError("options name no key: it comes from OPENAI_API_KEY or ANTHROPIC_API_KEY")
        return self

    @property
    def label(self) -> str:
        """The description of the feedback in an entry's label."""
        changed = f" templates={self.templates}" if self.texts else ""
        options = canonical_json(self.options)
        settings = f" options={options if len(options) <= 80 else digest(options)[:12]}" if self.options else ""
        return f"feedback={self.model} epsilon={self.epsilon:g}{changed}{settings}"


class Entry(Strict):
    """One environment of a suite.

    Attributes:
        label: names it in tables; unique in the suite.
        env_id: the full id.
        arguments: of the environment.
        spec_digest: what the environment was when the suite was written.
        split: of the tasks.
        turn_limit: free turns of an episode, the next is a forced answer; where none can be forced, its turns. None: the
            environment's own limit.
        feedback: before every turn; None for none.
        success: `success`, as the environment says at the end, or `return>=X` for the episode's return.
        weight: in the suite's score, relative to the other entries.
        tasks: (id, digest of the content, cluster) each.
    """

    label: Annotated[Name, AfterValidator(one_line)]
    env_id: Annotated[Name, AfterValidator(_plain_id)]
    arguments: dict[str, JsonValue]
    spec_digest: Hex
    split: Name
    turn_limit: Annotated[int, Field(ge=0)] | None = None
    feedback: Feedback | None = None
    success: Annotated[str, Field(pattern=r"^(success|return>=-?[0-9]+(\.[0-9]+)?)$")] = "success"
    weight: Annotated[float, Field(gt=0)] = 1.0
    tasks: Annotated[tuple[tuple[Name, Hex, Name], ...], Field(min_length=1)]

    @model_serializer(mode="wrap")
    def _omit_new_fields(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write an entry without the field `feedback` where there is none, as before: digests of suites stay the same."""
        row: dict[str, Any] = write(self)
        return row if self.feedback is not None else {name: row[name] for name in row if name != "feedback"}

    def solved(self, trajectory: Trajectory) -> bool:
        """Return whether an episode succeeds, by its own word or by its return; never one that its agent ended."""
        if trajectory.turns and ends_by_agent(trajectory.turns):
            return False
        if self.success == "success":
            return trajectory.success
        return trajectory.total_reward >= float(self.success.removeprefix("return>="))


class Average(Strict):
    """A mean over entries that a paper prints, under its name there.

    Attributes:
        name: unique in the suite.
        source: where it is printed.
        weights: of entries by label, relative to each other.
    """

    name: Annotated[Name, AfterValidator(one_line)]
    source: Annotated[Name, AfterValidator(one_line)]
    weights: Annotated[dict[Name, Annotated[float, Field(gt=0)]], Field(min_length=1)]


class Suite(Strict):
    """A plan that anyone can repeat. `scored` suites have one score, the weighted mean over their entries.

    `averages` are means that papers print beside it. `canary` is a text that nobody else writes: where a model knows it, the
    suite was in its training data.
    """

    format: Annotated[Literal["agent-envs/suite@1"], Field(alias="schema")] = SUITE_SCHEMA
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
    version: Annotated[str, Field(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}$")]
    scored: bool = True
    canary: Annotated[str, Field(max_length=200)] = ""
    trials: Annotated[int, Field(ge=1, le=1000)]
    averages: tuple[Average, ...] = ()
    entries: Annotated[tuple[Entry, ...], Field(min_length=1)]

    @model_serializer(mode="wrap")
    def _omit_new_fields(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write a suite without empty `canary` and `averages`, as before these fields: digests stay the same."""
        row: dict[str, Any] = write(self)
        return {name: row[name] for name in row if row[name] or name not in ("canary", "averages")}

    @model_validator(mode="after")
    def _unique(self) -> "Suite":
        """Return the suite; ValueError where labels, averages or an entry's tasks repeat, or an average weighs no entry."""
        labels = [entry.label for entry in self.entries]
        if len(set(labels)) < len(labels):
            raise ValueError("entries share a label")
        for entry in self.entries:
            if len({task for task, _, _ in entry.tasks}) < len(entry.tasks):
                raise ValueError(f"entry {entry.label} names a task twice")
        if len({item.name for item in self.averages}) < len(self.averages):
            raise ValueError("averages share a name")
        for item in self.averages:
            if not set(item.weights) <= set(labels):
                raise ValueError(f"average {item.name} weighs what is no entry")
        return self

    def part(self, entries: tuple[Entry, ...]) -> "Suite":
        """Return the suite with these of its entries and the averages over them; with fewer than all it has no score."""
        labels = {entry.label for entry in entries}
        averages = tuple(item for item in self.averages if set(item.weights) <= labels)
        scored = self.scored and len(entries) == len(self.entries)
        return self.model_copy(update={"entries": entries, "averages": averages, "scored": scored})

    @property
    def name(self) -> str:
        """The id and the version, as `core@1.1`."""
        return f"{self.id}@{self.version}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        row: dict[str, Any] = self.model_dump(mode="json")
        return row

    def digest(self) -> str:
        """Return the sha256 of the canonical JSON."""
        return digest(self.to_json())

    def episodes(self) -> Iterator[tuple[str, Entry, str, str, int]]:
        """Yield (episode key, entry, task id, cluster, trial) of every planned episode, trials of a task together."""
        for entry in self.entries:
            for task, _, cluster in entry.tasks:
                for trial in range(self.trials):
                    yield self.key(entry, task, trial), entry, task, cluster, trial

    def key(self, entry: Entry, task: str, trial: int) -> str:
        """Return the key of an episode: 16 hex digits of a digest over suite, entry, task and trial."""
        return digest([self.id, self.version, entry.label, entry.spec_digest, entry.split, task, trial])[:16]


def seed_of(key: str) -> int:
    """Return the seed of an episode key, in [0, 2**31)."""
    return int(key[:8], 16) >> 1


def read_suite(text: str | bytes, where: str) -> Suite:
    """Parse a suite from JSON; UsageError where it is none."""
    try:
        return Suite.model_validate_json(text)
    except ValidationError as error:
        raise UsageError(f"{where} is no suite: {first_fault(error, 'the text')}") from None


def first_fault(error: ValidationError, whole: str = "the row") -> str:
    """Return the first thing that a model refused, without the value; `whole` stands for a place of its own."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or whole}: {first['msg']}"


def suite_names() -> list[str]:
    """Return the suites that come with the package."""
    return sorted(file.name.removesuffix(".json") for file in _suite_folder().iterdir() if file.name.endswith(".json"))


def load_suite(name: str) -> Suite:
    """Return a suite by name (`core`, or `core@1.1` to insist on a version) or file; UsageError for none, another version.

    Raises:
        UsageError: there is none, or it has another version.
    """
    stem, _, version = name.partition("@")
    if re.fullmatch(r"[a-z0-9_-]+", stem) and stem in suite_names():
        suite = read_suite((_suite_folder() / f"{stem}.json").read_text(encoding="utf-8"), stem)
        if version not in ("", suite.version, suite.version.partition(".")[0]):
            raise UsageError(f"suite {stem} has version {suite.version} in this installation, not {version}")
        return suite
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"no suite {name!r}; the suites are {', '.join(suite_names())}, or the path of a suite's file")
    if path.stat().st_size > MOST_BYTES:
        raise UsageError(f"{path} is larger than {MOST_BYTES:,} bytes: no suite is")
    return read_suite(path.read_text(encoding="utf-8"), name)


def suite_text(suite: Suite) -> str:
    """Return the text of a suite's file: canonical JSON, one task a line so that changes can be read."""
    row = suite.to_json()
    entries = row.pop("entries")
    head = canonical_json(row)[:-1]
    parts = []
    for entry in entries:
        tasks = ",\n".join(canonical_json(task) for task in entry.pop("tasks"))
        parts.append(f'{canonical_json(entry)[:-1]},"tasks":[\n{tasks}]}}')
    return f'{head},"entries":[\n' + ",\n".join(parts) + "]}\n"


def changes(old: Any, new: Any, place: str = "") -> list[str]:
    """Return the differences of two JSON values in words, in their order, long lists by their lengths; [] if equal."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [*old, *(name for name in new if name not in old)]
        return [line for name in names for line in changes(old.get(name), new.get(name), f"{place}.{name}".lstrip("."))]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [line for at, pair in enumerate(zip(old, new, strict=True)) for line in changes(*pair, f"{place}[{at}]")]
    if old == new:
        return []
    if isinstance(old, list) and isinstance(new, list):
        return [f"{place} ({len(old)} -> {len(new)} of them)"]
    return [f"{place} ({_short_repr(old)} -> {_short_repr(new)})"]


def describe_changes(old: Any, new: Any) -> str:
    """Return the first three differences as one text, and how many more there are; an empty text if equal."""
    differences = changes(old, new)
    more = f" and {len(differences) - 3} more" if len(differences) > 3 else ""
    return ", ".join(differences[:3]) + more


def _short_repr(value: Any) -> str:
    """Return a value's repr, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _suite_folder() -> Any:
    """Return the folder of the suites that the package holds."""
    return files(__package__)
