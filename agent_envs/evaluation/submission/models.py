"""The files of a submission beside its rows are strict models: who played what with which models, and the list of files.

No number that counts is in them: scores are computed from the episodes (see `episode_rows`). Names and texts are bounded and
hold no character that could mislead a reader of a page or a terminal.
"""

import itertools
import json
import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue, model_validator

from agent_envs.base.strict_model import Strict
from agent_envs.base.terminal import one_line, plain_name, safe_text
from agent_envs.evaluation.suites.suite import Hex, Suite
from agent_envs.services.chat.prices import Price

MOST_META_BYTES = 64_000
PATH = r"^[a-z0-9][a-z0-9._/-]{0,119}$"
SAFE_INTEGER = 2**53
_FIRST_DAY = date(2020, 1, 1)  # nobody played a suite of ours before


def _real_day(text: str) -> str:
    """Return a day unchanged; ValueError for one that no calendar has, before 2020, or later than tomorrow. Empty passes."""
    if text and not _FIRST_DAY <= date.fromisoformat(text) <= datetime.now(tz=UTC).date() + timedelta(days=1):
        raise ValueError("the day is before 2020, or later than tomorrow")
    return text


def _check_path(path: str) -> str:
    """Return a path unchanged; ValueError for one that leaves the folder or is not normal."""
    if ".." in path or "//" in path or path.endswith("/"):
        raise ValueError("give a path inside the folder")
    return path


Line = Annotated[str, Field(max_length=80), AfterValidator(plain_name)]
Label = Annotated[str, Field(min_length=1, max_length=80), AfterValidator(plain_name)]
Notes = Annotated[str, Field(max_length=2000), AfterValidator(safe_text)]
Url = Annotated[
    str, Field(max_length=300, pattern=r"^(https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[!#-&(-;=?-\[\]-_a-~]*)?)?$")
]
LongLine = Annotated[str, Field(max_length=200), AfterValidator(one_line)]
Date = Annotated[str, Field(pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$"), AfterValidator(_real_day)]
Commit = Annotated[str, Field(pattern=r"^([0-9a-f]{7,64})?$")]
Digest = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
Count = Annotated[int, Field(ge=0, le=SAFE_INTEGER)]


class SuiteRef(Strict):
    """Which suite was played."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
    version: Annotated[str, Field(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}$")]
    digest: Hex


class AboutAgent(Strict):
    """What a person tells about the agent. An empty field leaves what the run tells."""

    name: Line = ""
    version: Line = ""
    url: Url = ""
    scaffold: Line = ""
    code_commit: Commit = ""
    uses: Annotated[tuple[Label, ...], Field(max_length=50)] = ()
    multi_attempt: bool | None = None


class AgentInfo(AboutAgent):
    """Who played. `reference` agents read the gold; `multi_attempt`: it may try a task again and keep the best."""

    name: Label
    kind: Literal["agent", "reference"]
    code_sha256: Digest = ""
    options: dict[str, JsonValue] = {}


class ModelInfo(Strict):
    """A model, and its role in the run."""

    name: Label
    provider: Line = ""
    revision: Line = ""
    weights: Literal["open", "closed", "unknown"] = "unknown"
    role: Literal["agent", "user", "judge", "feedback"] = "agent"
    sampling: Annotated[dict[Label, str | int | float | bool | None], Field(max_length=20)] = {}


class Submitter(Strict):
    """Who submits; both are published."""

    name: Line = ""
    contact: Line = ""


class Training(Strict):
    """What the agent was trained on, as its makers say; null where they do not."""

    on_suite_train: bool | None = None
    on_suite_test: bool | None = None
    notes: Notes = ""


class Harness(Strict):
    """What ran it. `git_commit` is the working directory's, "" without git; `packages_sha256` is over names and versions."""

    agent_envs: Label
    git_commit: Commit
    git_dirty: bool
    python: Label
    platform: LongLine
    packages_sha256: Hex


class Prices(Strict):
    """US dollars for a million tokens on a date."""

    date: Date
    models: dict[Label, Price]


class Submission(Strict):
    """`submission.json`: everything about a run but its numbers."""

    format: Annotated[Literal["agent-envs/submission@1"], Field(alias="schema")] = "agent-envs/submission@1"
    suite: SuiteRef
    agent: AgentInfo
    models: Annotated[tuple[ModelInfo, ...], Field(max_length=20)] = ()
    submitter: Submitter = Submitter()
    date: Date
    licence: Line = ""
    training: Training = Training()
    harness: Harness
    hardware: LongLine = ""
    prices: Prices
    smoke: Literal[False] = False


class FileRow(Strict):
    """One file of a submission."""

    path: Annotated[str, Field(pattern=PATH), AfterValidator(_check_path)]
    bytes: Count
    sha256: Hex


class Manifest(Strict):
    """`manifest.json`: every other file, sorted by path. The sha256 of its bytes is the id of the submission.

    `replayed`: the packer stepped every episode again, as it says; a verifier does so anyway.
    """

    format: Annotated[Literal["agent-envs/manifest@1"], Field(alias="schema")] = "agent-envs/manifest@1"
    replayed: bool = True
    files: Annotated[tuple[FileRow, ...], Field(min_length=1, max_length=10_000)]

    @model_validator(mode="after")
    def _check_order(self) -> "Manifest":
        """Return the manifest; ValueError where its paths are not sorted, not unique, or name the manifest itself."""
        paths = [row.path for row in self.files]
        if paths != sorted(set(paths)) or "manifest.json" in paths:
            raise ValueError("files are sorted by path, each once, without manifest.json")
        return self


def entry_folders(suite: Suite) -> dict[str, str]:
    """Return the folder of each entry's episodes by label: a readable name, numbered where two labels come to one."""
    folders: dict[str, str] = {}
    for entry in suite.entries:
        stem = re.sub(r"[^a-z0-9]+", "-", entry.label.lower()).strip("-")[:60].strip("-") or "entry"
        names = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
        paths = set(folders.values())
        folders[entry.label] = next(path for name in names if (path := f"episodes/{name}") not in paths)
    return folders


def file_text(model: Strict) -> str:
    """Return the text of a small file: sorted keys, one value a line so that changes can be read."""
    row = model.model_dump(mode="json")
    return json.dumps(row, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
