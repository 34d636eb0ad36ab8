"""Keys, tokens, home directories and addresses are found wherever they stand, and are never printed."""

import json

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import canonical_json
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.submission.secrets_scan import KINDS, SecretScan, kinds_in
from tests.evaluation.submission.packing import Saying, assert_nothing_left, play, small_suite
from tests.rows import each_row


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packing") / "run"
    play(folder)
    return folder


SECRETS = {
    "api-key": [
        "sk-abcdefghijklmnopqrst12345",
        "sk-ant-api03-" + "a1" * 20,
        "hf_" + "aB3" * 11,
        "AIza" + "b1_" * 11 + "cd",
    ],
    "aws-key": ["AKIA" + "Z7" * 8, "ASIA" + "Z7" * 8],
    "github-token": ["ghp_" + "a1B" * 12, "github_pat_" + "a1_" * 9],
    "slack-token": ["xoxb-1234567890-abc", "xoxp-1234567890-abc"],
    "private-key": ["-----BEGIN PRIVATE KEY-----", "-----BEGIN OPENSSH PRIVATE KEY-----"],
    "bearer-token": ["Authorization: Bearer abcdefghij0123456789", "bearer abc.def-0123456789abcd=="],
    "home-directory": ["/home/ada/x", "see /Users/ada", "C:\\Users\\ada", 'file "/home/ada"'],
    "email": ["ada@lovelace.org", "<a.b+c@mail.example.com.evil.net>", "x@example.company.com", "a@b.co"],
}
HARMLESS = [
    "task-abcdefghijklmnopqrst12345", "sk-learn-is-a-library-of-methods", "sk-1", "hf_hub_download", "AKIA", "@tool", "a@b",
    "https://www.site.org/home/about", "~/home/x", "noah.brown1234@example.com", "a@mail.example.org.", "x@test",
    "Bearer of bad news", "the bearer abcdefghijklmnopqrstuvwxyz", "/homes/x", "PRIVATE KEY", "xoxo-hello",
    "pick@3.5 and 4@2.1", "a@b.example",
]  # fmt: skip


@each_row("kind, text", [(kind, text) for kind, texts in SECRETS.items() for text in texts])
def test_secrets_are_found_wherever_they_stand(kind, text):
    assert set(SECRETS) == set(KINDS)
    line = canonical_json({"action": f'line\n{text}\n"quoted"\tend', "more": text})
    for place in (text, f"({text})", f"say {text}, then"):
        assert kinds_in(place) == [kind]
    scan = SecretScan()
    scan.scan_line("a/b.gz", 7, line)
    with pytest.raises(UsageError, match=f"a/b.gz, line 7: {kind}") as error:
        scan.refuse()
    assert text not in str(error.value)
    allowed = SecretScan([kind])
    allowed.scan_line("a/b.gz", 7, line)
    allowed.refuse()


@each_row("text", HARMLESS)
def test_harmless_texts_are_no_secrets(text):
    assert kinds_in(text) == []


BEGINNINGS = [
    "a", "sk-", "a.", "@a.", "a@", "earer ", "Bearer  ", "/home/", "-----BEGIN ", "hf_a", "a-", "@example.",
]  # fmt: skip


@pytest.mark.parametrize("unit", BEGINNINGS)
def test_a_long_text_of_mere_beginnings_is_read_to_its_end(unit):
    """Minutes, if a pattern went back and forth over these."""
    text = "@ earer sk-hf_/home/ PRIVATE KEY" + unit * (400_000 // len(unit))
    assert kinds_in(text) == []
    assert kinds_in(" ".join([text, *(texts[0] for texts in SECRETS.values())])) == list(KINDS)


def test_a_run_with_a_secret_is_refused_by_file_line_and_kind(tmp_path):
    secret = "sk-" + "a1b2" * 8
    play(tmp_path / "run", small_suite(2, 1), "saying", policy=Saying(f"<answer>{secret} ada@lovelace.org</answer>"))
    with pytest.raises(UsageError) as error:
        pack_run(tmp_path / "run", tmp_path / "out")
    text = str(error.value)
    assert "0000.jsonl.gz, line 2: email" in text and "2 of kind api-key, 2 of kind email" in text
    assert "--allow api-key --allow email" in text and secret not in text and "lovelace" not in text
    with pytest.raises(UsageError, match="api-key"):
        pack_run(tmp_path / "run", tmp_path / "out", allow=("email",))
    with pytest.raises(UsageError, match="no kind e-mail; the kinds are api-key"):
        pack_run(tmp_path / "run", tmp_path / "out", allow=("e-mail",))
    assert_nothing_left(tmp_path / "out", tmp_path / "run")
    pack_run(tmp_path / "run", tmp_path / "out", allow=("email", "api-key"))


def test_secrets_in_reports_and_causes_and_contacts_are_found(run_folder, tmp_path):
    (tmp_path / "r.md").write_text("fine\n/home/ada/notes\n", encoding="utf-8")
    about = {
        "schema": "agent-envs/about@1",
        "submitter": {"contact": "ada@lovelace.org or /home/ada"},
        "report": "r.md",
    }
    (tmp_path / "about.json").write_text(json.dumps(about), encoding="utf-8")
    with pytest.raises(UsageError) as error:
        pack_run(run_folder, tmp_path / "out", tmp_path / "about.json")
    assert "report.md, line 2: home-directory" in str(error.value) and "submission.json, line" in str(error.value)
    assert "email" not in str(error.value)
    suite = small_suite(1, 1)
    keys = [key for key, *_ in suite.episodes()]
    play(tmp_path / "run", suite, "saying", policy=Saying(faulty=keys, cause="401 for Bearer abcdefghij0123456789"))
    with pytest.raises(UsageError, match=r"attempts.jsonl, line 1: bearer-token"):
        pack_run(tmp_path / "run", tmp_path / "out", incomplete=True)
