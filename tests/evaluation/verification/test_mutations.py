"""No change of an accepted submission gets through that moves a score; made from the schemas, so that new fields are too."""

from tests.needs import require

require("[envs]")

import shutil

import pytest

from agent_envs.evaluation.submission.episode_rows import EpisodeRow, ShardWriter, row_text
from agent_envs.evaluation.submission.pack import _write_manifest
from agent_envs.evaluation.verification.shards import read_lines
from agent_envs.evaluation.verification.verify import How, verify
from tests.evaluation.verification.changes import files_of
from tests.evaluation.verification.mutations import Campaign, fields_of, run
from tests.examples import part

# What a submitter alone can tell: an accepted change of any other field would be one that nobody checks.
FREE = {
    "episode.usage", "episode.seconds", "episode.agent_seconds", "attempt.cause", "manifest.replayed",
    # An answer that the environment goes on from in the same way; the badge says that answers are the submitter's.
    "external.response",
    "episode.turns.*.action",  # another action that the environment answers in the very same way
}  # fmt: skip


@pytest.fixture(scope="module")
def campaign(all_families, tmp_path_factory):
    suite, packed = all_families
    folder = tmp_path_factory.mktemp("mutated") / "packed"
    shutil.copytree(packed, folder)
    return Campaign(suite, folder, seed=1)


def test_mutations_are_rejected_or_leave_every_score_unchanged(campaign):
    before = files_of(campaign.folder)
    count = part(300, 80)
    result = run(campaign, count, sample=10)
    assert result["accepted_wrongly"] == [] and result["differing"] == []
    assert set(result["outcomes"]) == {"rejected", "unchanged"} and result["outcomes"]["rejected"] > count / 2
    kept = {name for name, outcomes in result["fields"].items() if "unchanged" in outcomes}
    assert {name for name in kept if not name.startswith("submission.")} <= FREE
    assert files_of(campaign.folder) == before and result["episodes"] >= 40


def test_every_field_of_every_row_is_mutated(campaign):
    names = {(kind, path) for kind, path in campaign.fields}
    assert {("episode", path) for path in fields_of(EpisodeRow)} <= names
    for path in (("env", "turn_limit"), ("turns", "*", "action"), ("result", "return"), ("schema",), ("chain",)):
        assert ("episode", path) in names
    assert ("submission", ("suite", "digest")) in names and ("manifest", ("files", "*", "sha256")) in names
    assert ("external", ("response",)) in names and ("attempt", ("cause",)) in names


def test_a_pack_that_is_written_again_is_accepted(all_families, tmp_path):
    suite, packed = all_families
    shutil.copytree(packed, tmp_path / "again")
    for folder in [*(tmp_path / "again" / "episodes").iterdir()]:
        lines = [line for path in sorted(folder.iterdir()) for line in read_lines(path)]
        shutil.rmtree(folder)
        writer = ShardWriter(folder, most_rows=1)  # in other shards than before, too
        for line in lines:
            writer.write(row_text(EpisodeRow.model_validate_json(line)))
        writer.close()
    (tmp_path / "again" / "manifest.json").unlink()
    _write_manifest(tmp_path / "again", replayed=True)
    one, two = (verify(folder, How(suite, jobs=0)) for folder in (packed, tmp_path / "again"))
    assert one.verdict == two.verdict == "accepted" and one.entries == two.entries and one.submission != two.submission
