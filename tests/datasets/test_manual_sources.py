"""Data that is listed and never fetched: told as its families read it."""

from pathlib import Path

import pytest

from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.datasets.download import get
from agent_envs.datasets.listing import data_paths, data_rows
from agent_envs.datasets.manual_sources import MANUAL_SOURCES, find_manual_source
from agent_envs.envs.legal_search.published import LIBRARIES
from agent_envs.envs.tau2 import official


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "data"


def rows() -> dict[str, dict[str, str]]:
    return {row["name"]: row for row in data_rows()}


def test_the_rows_are_complete_and_the_families_agree(data: Path) -> None:
    for name, row in MANUAL_SOURCES.items():
        assert row.name == name and row.title and row.domain and row.published and row.licence and row.terms
        assert row.origin.startswith("github.com/") and (row.place or not row.cached)
    for name, file in LIBRARIES.items():
        assert MANUAL_SOURCES[name].place == f"legal/{file}"
    tau2 = MANUAL_SOURCES["tau2"]
    assert official.COMMIT in tau2.terms and f"github.com/{official.REPOSITORY}" == tau2.origin
    for folder in (data / tau2.place, data.parent / "cache" / tau2.cached):
        folder.mkdir(parents=True)
        assert find_manual_source("tau2") == official.official_folder() == folder
        folder.rmdir()


def test_what_is_here_is_listed_with_its_place(data: Path) -> None:
    found = rows()
    assert [found[name]["here"] for name in MANUAL_SOURCES] == ["no"] * 5
    for name in LIBRARIES:
        place = data / MANUAL_SOURCES[name].place
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("")
        assert rows()[name]["here"] == str(place) and data_paths(name, "") == [place]


def test_they_are_not_downloaded(data: Path) -> None:
    for name, row in MANUAL_SOURCES.items():
        with pytest.raises(UsageError, match=f"{name} is not downloaded from here: ") as refused:
            get(name, "test")
        assert row.terms in str(refused.value)
        with pytest.raises(DataMissing) as missing:
            data_paths(name, "")
        assert row.terms in str(missing.value) and (str(data) in str(missing.value)) == bool(row.place)


def test_every_row_says_where_it_comes_from() -> None:
    told = {name: row["from"] for name, row in rows().items()}
    assert all(told.values())
    assert told["nq"] == "hub RUC-NLPIR/FlashRAG_datasets, github.com/google-research-datasets/natural-questions"
    assert told["math500"] == "github.com/openai/prm800k" and told["gsm8k"] == "github.com/openai/grade-school-math"
    assert told["aime25"] == "hub math-ai/aime25" and told["gaia"] == "hub gaia-benchmark/GAIA"
    assert (told["sample"], told["wiki-18"]) == ("the data folder", "hub PeterJinGo/wiki-18-corpus")
