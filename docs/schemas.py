"""The JSON Schemas of suites and submissions are written from the models that read them."""

import json
from pathlib import Path

from pydantic import BaseModel

from agent_envs.evaluation.submission.episode_rows import AttemptRow, EpisodeRow, ExternalRow
from agent_envs.evaluation.submission.models import Manifest, Submission
from agent_envs.evaluation.suites.suite import Suite

FOLDER = Path(__file__).parent / "schemas"
MODELS: dict[str, type[BaseModel]] = {
    "suite": Suite,
    "submission": Submission,
    "manifest": Manifest,
    "episode": EpisodeRow,
    "attempt": AttemptRow,
    "external": ExternalRow,
}


def schemas() -> dict[Path, str]:
    """Return path -> text of every schema."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {
        FOLDER / f"{name}.schema.json": json.dumps(dialect | model.model_json_schema(by_alias=True), indent=2) + "\n"
        for name, model in MODELS.items()
    }


def write_schemas() -> None:
    """Write the files."""
    FOLDER.mkdir(exist_ok=True)
    for path, text in schemas().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_schemas()
