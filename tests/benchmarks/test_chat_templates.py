"""Chat templates are checked for being append-only, and what they change is named."""

from tests.needs import require

require("[train]")

import sys

import pytest

from benchmarks.chat_templates import check_template, main
from tests.trainers.tokens.toys import TEMPLATES, bpe
from trainers.tokens import ChatTokenizer
from trainers.tokens.rendering import TemplateShape

REASONS = {
    "strips thoughts": "thinking is stripped",
    "opens with a thought": "earlier turns are written anew",
    "rewrites calls": "tool calls are rewritten",
    "moves the system": "the system prompt is dropped",
    "trims": "white space",
}


@pytest.mark.parametrize("name", ["chatml", "qwen", "llama"])
def test_our_templates_only_append(name):
    report = check_template(bpe(name), name)
    assert report.append_only and report.reasons == ()
    assert ChatTokenizer(bpe(name), name).shape == TemplateShape((), False, False, True)
    assert report.notes == ()


@pytest.mark.parametrize("name", sorted(REASONS))
def test_templates_that_rewrite_are_named_with_the_reason(name):
    report = check_template(bpe(), TEMPLATES[name])
    assert not report.append_only
    assert any(REASONS[name] in reason for reason in report.reasons), report.reasons


def test_a_template_that_strips_thoughts_is_blamed_for_nothing_else():
    report = check_template(bpe(), TEMPLATES["strips thoughts"])
    changed = "the text of 2 messages changes when a message of role user follows"
    assert report.reasons == (f"thinking is stripped from earlier turns: {changed}",)


@pytest.mark.parametrize("name", ["has no system", "has no tool", "alternates", "writes a date", "has no prompt"])
def test_templates_that_refuse_or_add_something_still_only_append(name):
    report = check_template(bpe(), TEMPLATES[name])
    assert report.append_only, report.reasons
    assert any("calls in fields" in note for note in report.notes)


def test_a_date_is_noted_and_does_not_move():
    report = check_template(bpe(), TEMPLATES["writes a date"])
    assert any("2024-07-26" in note for note in report.notes)
    chat = ChatTokenizer(bpe(), TEMPLATES["writes a date"])
    assert "system\n26 Jul 2024<" in chat.tokenizer.decode(chat.open([{"role": "user", "content": "one"}]).ids)


def test_generation_marks_of_templates_are_left_out():
    report = check_template(bpe(), TEMPLATES["marks what is generated"])
    assert not any("thinking" in reason or "white" in reason for reason in report.reasons)


@pytest.mark.parametrize(
    ("name", "count"), [("has no system", 2), ("has no tool", 1), ("alternates", 3), ("collects the system", 1)]
)
def test_roles_that_become_the_users_are_noted(name, count):
    assert sum("folded into the user's" in note for note in check_template(bpe(), TEMPLATES[name]).notes) == count


def test_a_model_is_named_on_the_command_line(tmp_path, capsys, monkeypatch):
    tokenizer = bpe()
    tokenizer.chat_template = TEMPLATES["strips thoughts"]
    tokenizer.save_pretrained(tmp_path)
    monkeypatch.setattr(sys, "argv", ["chat_templates", str(tmp_path)])
    main()
    assert "thinking is stripped" in capsys.readouterr().out
