"""Turns in other forms than the prompt's, played in environments: what is read, what is refused with strict=True."""

import gymnasium as gym
import pytest

from agent_envs.base.protocol import Answer, Call, Malformed, Say
from agent_envs.grading.text_answers import token_f1

BOXES = {"protocol": "json", "tools": ["search"]}
JSON, ANSWER = {"protocol": "json"}, '{"name": "answer", "parameters": {"text": "GOLD"}}'


def play(env_id, text, cut=False, **arguments):
    """Play one turn, GOLD in it for the gold answer, cut by a limit or not; return success, parsed turn, tolerance events."""
    env = gym.make(f"agent_envs/{env_id}-v0", **arguments)
    env.reset(seed=0, options={"task": 0, "split": "test"})
    gold = (*env.unwrapped.episode.task.gold, "")[0]
    env.unwrapped.reply_cut = cut
    *_, info = env.step(text.replace("GOLD", gold))
    events = [event for event in info["events"] if event.startswith("tolerated:")]
    return bool(info.get("success")), env.unwrapped.episode.turns[-1].parsed, events


@pytest.mark.parametrize("thoughts", ["skip", "count"])
@pytest.mark.parametrize("text", ["<think>maybe \\boxed{GOLD}", "It is so. <think>maybe \\boxed{GOLD}"])
def test_a_thought_that_is_not_closed_is_no_success(text, thoughts):
    success, parsed, _ = play("ToolReasoning", text, thoughts=thoughts, **BOXES)
    assert not success and isinstance(parsed, Malformed) and "not closed" in parsed.reason
    assert play("ToolReasoning", "<think>maybe</think> \\boxed{GOLD}", thoughts=thoughts, **BOXES)[0]


@pytest.mark.parametrize(
    ("env_id", "text", "arguments"),
    [
        ("Arithmetic", "#### GOLD\n\nQuestion: next?\nAnswer: ... #### 5", {}),
        ("Arithmetic", "#### GOLD<|im_end|>", {}),
        ("Arithmetic", "#### GOLD, altogether", {}),
        ("GSM8KScaled", "#### GOLD\nGive your final answer as a line.\n#### 1", {}),
        ("SearchQA", "<answer>GOLD\nQuestion: who else?\nAnswer: nobody", {}),
        ("ToolReasoning", "\\boxed{GOLD}\n\nQuestion: and then? \\boxed{1}", BOXES),
        ("ToolReasoning", "\\fbox{GOLD}", BOXES),
        ("ToolReasoning", "So it is \\boxed GOLD.", BOXES),
        ("SearchQA", f"Now.[TOOL_CALLS] [{ANSWER}]", JSON),
        ("SearchQA", f"<|python_tag|>{ANSWER}<|eom_id|>", JSON),
        ("SearchQA", f"<function_call>{ANSWER}</function_call>", JSON),
    ],
)
def test_answers_in_other_forms_count_but_strictly(env_id, text, arguments):
    success, _, events = play(env_id, text, **arguments)
    assert success and events
    assert not play(env_id, text, strict=True, **arguments)[0]


def test_thoughts_of_other_templates_are_no_action():
    for thought in ("◁think▷A <answer>1</answer>◁/think▷", "<|channel|>analysis<|message|><answer>1</answer><|end|>"):
        success, *_ = play("SearchQA", f"{thought}<|start|>assistant<|channel|>final<|message|><answer>GOLD</answer>")
        assert success and "not closed" in play("SearchQA", thought[:-7])[1].reason


def test_a_box_that_is_taken_back_is_not_paid():
    for words in (" is right", " is wrong, it is 7", ". No, wait: 7", "$ isn't it"):
        success, *_ = play("ToolReasoning", f"<answer>\\boxed{{GOLD}}{words}</answer>", tools=["search"])
        assert success == (words == " is right")


XML = "<function=get_user_details>\n<parameter=user_id>\nada_1\n</parameter>\n</function>"


@pytest.mark.parametrize("text", [XML, f"<tool_call>\n{XML}\n</tool_call>", f"I look.\n<tool_call>{XML}"])
def test_calls_in_xml_are_carried_out(text):
    _, parsed, events = play("Tau2Retail", text)
    assert isinstance(parsed, Call) and parsed.calls[0].arguments == '{"user_id":"ada_1"}' and len(events) == 1
    assert not isinstance(play("Tau2Retail", text, strict=True)[1], Call)


def test_imagined_words_behind_a_call_make_none():
    call = '<tool_call>\n{"name": "get_user_details", "arguments": {"user_id": "a"}}\n</tool_call>'
    _, parsed, events = play("Tau2Retail", f"{call}\nUser: and now?\n{call}")
    assert isinstance(parsed, Call) and len(parsed.calls) == 1 and len(events) == 1


@pytest.mark.parametrize("strict", [False, True])
def test_data_is_speech_unless_its_name_is_a_tool(strict):
    for text in (
        '{"name": "Sofia Hernandez", "order": "#W1"}',
        '{"name": "Sofia Hernandez"}',
        '{"id": 1, "name": "Sofia \\"S\\" H"}',
    ):
        assert play("Tau2Retail", text, strict=strict)[1] == Say(text)
    for text in ('{"name": "get_user_details", "arguments": {"user_id": "a"}}', '{"name": "list_all_product_types"}'):
        assert isinstance(play("Tau2Retail", text, strict=strict)[1], Call)
    assert isinstance(
        play("SearchQA", '{"name": "Sofia", "city": "Rome"}', protocol="json", strict=strict)[1], Malformed
    )


CUT = [
    ("SearchQA", "<answer>GOLD", {}),
    ("SearchQA", "<search>who", {}),
    ("LegalSearch", "Let me see. <answer>5 [sources:", {}),
    ("ToolReasoning", "<answer>GOLD", {}),
    ("ToolReasoning", "<answer>GOLD", BOXES),
    ("ToolReasoning", "\\boxed GOLD", BOXES),
    ("Arithmetic", "#### GOLD", {}),
    ("Arithmetic", "<calculator>1+", {}),
    ("Sort", "<answer>GOLD", {}),
    ("BabyAI", "ACTION: go forward", {}),
    ("Tau2Retail", "I look. <function=find_user_id_by_email><parameter=email>a", {}),
    ("Tau2Retail", '<tool_call>\n{"name": "find_user', {}),
]


@pytest.mark.parametrize(("env_id", "text", "arguments"), CUT)
@pytest.mark.parametrize("strict", [False, True])
def test_an_action_that_was_cut_before_it_was_closed_is_none(env_id, text, arguments, strict):
    success, parsed, _ = play(env_id, text, cut=True, strict=strict, **arguments)
    assert not success and isinstance(parsed, Malformed)


@pytest.mark.parametrize(
    ("env_id", "text", "kind"),
    [
        ("SearchQA", "<search>who</search> and then I <answer>Mo", Call),
        ("Arithmetic", "#### GOLD is what comes ou", Answer),
        ("BabyAI", "ACTION: pick up the yel", Say),
        ("BabyAI", "ACTION: go forward\nNow I", Say),
        ("Tau2Retail", "Good morning, may I have your na", Say),
        ("Tau2Retail", '<tool_call>\n{"name": "find", "arguments": {}}', Call),
    ],
)
def test_what_was_closed_before_the_cut_acts(env_id, text, kind):
    assert isinstance(play(env_id, text, cut=True)[1], kind)


def test_a_game_takes_the_action_before_the_reply_runs_on():
    _, parsed, events = play("BabaIsAI", "ACTION: up<|im_end|>\nObservation: a wall\nACTION: left")
    assert parsed == Say("up") and len(events) == 1


def test_an_answer_in_tags_is_the_first():
    assert isinstance(play("SearchQA", "<answer>GOLD</answer>\nQuestion: next? <answer>1</answer>")[1], Answer)


@pytest.mark.parametrize(
    ("answer", "gold", "overlap"), [("yes it is", "yes", 0.0), ("yes", "Yes.", 1.0), ("no", "no way", 0.0)]
)
def test_yes_and_no_have_no_partial_overlap(answer, gold, overlap):
    assert token_f1(answer, [gold]) == overlap
    assert token_f1("red fox", ["fox"]) == pytest.approx(2 / 3)
