"""A finished conversation is held against what its user could do: closings that come too early, and claims about the phone.

Made to be silent on honest users: where words could be read either way, they are no fault. A fault says that the user, not
the agent, may be why an episode failed.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from agent_envs.envs.tau2.dialogue import Line
from agent_envs.envs.tau2.task_schema import Tau2Task
from agent_envs.envs.tau2.toolkit import Domain
from agent_envs.envs.tau2.turn_taking import USER_STOPS
from agent_envs.envs.tau2.user_script import Want
from agent_envs.envs.tau2.users.device import plan, requests
from agent_envs.envs.tau2.users.device_words import LONGEST
from agent_envs.envs.tau2.users.understanding import Understood, understood

KINDS = ("stopped_early", "unwarranted_transfer", "unasked_action", "ungrounded")
# What an agent's words must touch on before a writing tool is used; wider than what `requests` understands, on purpose.
_TOUCHES = {
    "toggle_airplane_mode": r"air(?:plane|craft)|flight mode",
    "set_network_mode_preference": r"network (?:mode|type|preference|setting)|preferred network|[2345]g\b|\blte\b",
    "reseat_sim_card": r"\bsim\b",
    "toggle_data": r"\bdata\b|\bcellular\b",
    "toggle_roaming": r"\broam",
    "toggle_data_saver_mode": r"\bsav(?:er|ing)\b|low[- ]data",
    "set_apn_settings": r"\bapn\b|access point|mmsc?\b",
    "reset_apn_settings": r"\bapn\b|access point|network settings|mmsc?\b",
    "toggle_wifi": r"wi-?fi",
    "toggle_wifi_calling": r"wi-?fi",
    "connect_vpn": r"\bvpn\b",
    "disconnect_vpn": r"\bvpn\b",
    "grant_app_permission": r"permission|\ballow|\bgrant|\baccess\b",
    "reboot_device": r"re-?boot|re-?start|power[- ](?:cycl|off)|(?:phone|device|it) off|off and",
    "make_payment": r"\bpa(?:y|id)|\bbills?\b|\bsettle",
}
_NEVER = r"\b(?:do not|don't|no need to|avoid|without|never|rather than|instead of)\s(?:[\w'-]+\s){0,4}?[\w'-]*?"
_FORBIDDEN = {name: re.compile(rf"{_NEVER}(?:{words})") for name, words in _TOUCHES.items()}
_TOUCHED = {name: re.compile(words) for name, words in _TOUCHES.items()}
_REFERS = re.compile(
    r"\b(?:turn|switch|put|disable|enable|toggle|activate|deactivate|reset|change|set|pay|grant|allow|disconnect|do|try|fix)\b"
    r".{0,20}\b(?:it|that|this|them|so)\b"
)
_SENTENCE = re.compile(r"[.!?\n;]+\s*")
_ME = r"\bi(?:'ve| have)?(?: (?:just|now|already|also|then|successfully|went ahead and))*,? "
_FLIP = r"(?:turned|switched|toggled|disabled|enabled|deactivated|activated|put)(?: (?:on|off))?(?: (?:the|my|phone's|that))*"
# What somebody says who did or saw something, and the tools one of which that takes.
_CLAIMED_ACTIONS = (
    (_ME, r"(?:re-?booted|re-?started|power[- ]cycled)\b", ("reboot_device",)),
    (_ME, rf"{_FLIP} air(?:plane|craft) mode|{_FLIP} flight mode", ("toggle_airplane_mode",)),
    (_ME, rf"{_FLIP} (?:data |mobile |international )*roaming", ("toggle_roaming",)),
    (_ME, rf"{_FLIP} data[- ]saver", ("toggle_data_saver_mode",)),
    (_ME, rf"{_FLIP} (?:mobile |cellular )+data\b(?! roaming| saver)", ("toggle_data",)),
    (_ME, rf"{_FLIP} wi-?fi calling", ("toggle_wifi_calling",)),
    (_ME, rf"{_FLIP} wi-?fi\b(?! calling)", ("toggle_wifi",)),
    (_ME, rf"(?:disconnected|{_FLIP})(?: from)?(?: (?:the|my))? vpn", ("disconnect_vpn", "connect_vpn")),
    (_ME, r"(?:re-?seated|re-?inserted|took out)(?: (?:the|my))? sim\b", ("reseat_sim_card",)),
    (_ME, r"(?:reset|restored)(?: (?:the|my|all|those))* apn\b", ("reset_apn_settings", "set_apn_settings")),
    (_ME, r"(?:paid|made (?:the|that|my|a) payment)\b", ("make_payment",)),
    (_ME, r"(?:granted|gave|allowed) .{0,40}\bpermissions?\b", ("grant_app_permission",)),
    (_ME, r"(?:ran|did|performed) (?:a|the|another) speed ?test", ("run_speed_test",)),
    ("", r"\bspeed ?test (?:result )?(?:shows|showed|says|said|came|returned|reads|gave|reports)\b", ("run_speed_test",)),
    ("", r"\b\d+(?:\.\d+)? ?mbps\b", ("run_speed_test",)),
)  # fmt: skip
_SPOKEN = tuple((re.compile(who + what), re.compile(what), tools) for who, what, tools in _CLAIMED_ACTIONS)
_BAR = re.compile(
    r"\bstatus bar (?:now |still |currently |just )*(?:shows|showed|says|said|reads|displays|displayed|indicates)\b"
)
_TRANSFER = USER_STOPS[1]
_HANDS = re.compile(
    r"\btransfer|\bhuman\b|\bescalat|\bsupervisor|\bspecialist|\bcolleague|\brepresentative|\bconnect(?:ing)? you\b"
)
_NOT = re.compile(r"\b(?:not|no|cannot|can't|unable|won't|never|without|don't)\b")
_YES = re.compile(
    r"\b(?:yes|yeah|yep|yup|sure|please do|go ahead|correct|that works|sounds good|confirm(?:ed)?|proceed|agreed|absolutely"
    r"|definitely)\b"
)
_NO = re.compile(
    r"\b(?:no|not|never ?mind|nothing|that(?:'s| is| was) (?:all|everything)|instead|bye|goodbye|rather)\b|n't\b"
)
_GIVES_UP = re.compile(
    r"\b(?:never ?mind|forget (?:about )?it|give up|leads nowhere|in circles|(?:another|some other) time|leave it"
    r"|try (?:again )?later|waste of time|call back|elsewhere|nothing to be done|without (?:it|that|them))\b"
)
_WORD = re.compile(r"[a-z]{4,}|[a-z]*\d[a-z0-9]*")
_COMMON = frozenset(
    "about after again agent also because been before call called calling could does from have having help into just know like "
    "make more much need only other please some than that their them then there these they this want wants what when where "
    "which will with would your yours you're able tell told issue customer service contact contacting".split()
)
_ENOUGH_REQUESTS, _STEM, _MENTION_SHARE = 3, 5, 0.3


def find_faults(task: Tau2Task, lines: Sequence[Line], ended: str, domain: Domain) -> list[tuple[str, int, str]]:
    """Return a user's faults in a conversation: actions and claims without a cause, each with kind, line and words."""
    lines, past = tuple(lines), len(task.history)
    start = past if lines[:past] == task.history else 0
    faults = [*_closing(task, lines, ended), *_actions(lines, start, domain)]
    if domain.user is not None:
        for place, line in enumerate(lines):
            if line.sender == "user" and not line.calls and place >= start:
                faults += [
                    ("ungrounded", place, f"says {what!r}")
                    for what in ungrounded_claims(line.text, task.scenario, lines[:place])
                ]
    return list(dict.fromkeys(faults))


def episode_faults(core: Any) -> list[tuple[str, int, str]]:
    """Return a user's faults in an episode of tau2 that is over."""
    task, dialogue = core.opened(core.episode.task)[0], core.episode.state
    return find_faults(task, dialogue.lines, dialogue.ended, core.rules.domain)


def _closing(task: Tau2Task, lines: tuple[Line, ...], ended: str) -> Iterator[tuple[str, int, str]]:
    """Yield the user's closings that come too early: a transfer that nobody offered, or wishes still open; none else."""
    last = len(lines) - 1
    if ended != "user_stop" or not lines or lines[last].calls:
        return
    if _TRANSFER in lines[last].text and not _hands_over(lines[:last]):
        yield "unwarranted_transfer", last, "gives itself up to a transfer that nobody spoke of"
        return
    yield from (("stopped_early", last, why) for why in early_reasons(task, lines, last))


def _actions(lines: tuple[Line, ...], start: int, domain: Domain) -> Iterator[tuple[str, int, str]]:
    """Yield the changes on its phone that nobody asked for."""
    tools = domain.user.tools if domain.user is not None else {}
    words, speech = list[str](), ""
    for place, line in enumerate(lines):
        if line.sender == "assistant" and not line.calls:
            words += [
                line.text,
                *([speech] if refers(line.text) else []),
            ]  # "turn it off": what the user has just told of
        if line.sender == "user" and not line.calls:
            speech = line.text
        if line.sender == "user" and place >= start:
            writes = [call.name for call in line.calls if call.name in tools and tools[call.name].writes]
            yield from (
                ("unasked_action", place, f"uses {name}, which nobody asked for")
                for name in unasked_tools(writes, words)
            )


def early_reasons(task: Tau2Task, lines: tuple[Line, ...], last: int) -> Iterator[str]:
    """Yield the reasons why a user ends the conversation too early with its last message.

    Args:
        task: what the user was told.
        lines: the conversation.
        last: the place of that message.
    """
    before = lines[:last]
    first = next((place for place, line in enumerate(lines) if line.sender == "user"), last)
    if not any(line.sender == "assistant" for line in lines[first:last]):
        yield "ends the conversation before the agent has answered"
        return
    if _hands_over(before):
        return
    words = _bare(lines[last].text)
    gives_up = bool(_GIVES_UP.search(words))
    question = "" if gives_up else _open_question(before, words)
    if question:
        yield question
    speech = " ".join(_bare(line.text) for line in lines if line.sender == "user" and not line.calls)
    if task.script is None:
        if not _overlaps(_reason(task), speech, 0.0):
            yield "ends the conversation and never said why it called"
    elif not gives_up and _makes_progress(lines[first:last]):
        untold = [want for want in task.script.wants if not want.only_if_refused and not _mentions(want, speech)]
        for want in untold:
            yield f"ends the conversation and never asked for this: {want.say[:100]}"


def _open_question(before: tuple[Line, ...], words: str) -> str:
    """Describe the open question of an agent's last message, on which a user stops, or return ""."""
    place = max((at for at, line in enumerate(before) if line.sender == "assistant" and not line.calls), default=-1)
    if place < 0 or any(line.sender == "user" for line in before[place:]):  # it did on the phone what it was asked for
        return ""
    request = understood(before[place].text)
    if request.closes or request.probes or request.transfers or request.offers_transfer:
        return ""
    if request.asks and not request.topics:
        agrees = not words or (bool(_YES.search(words)) and not _NO.search(words))
        return "ends the conversation with the yes for which the agent waits before it acts" if agrees else ""
    if request.topics and not request.refuses and not _asks_often(before, request):
        return f"ends the conversation while the agent asks for {', '.join(request.topics)}"
    return ""


def _asks_often(before: tuple[Line, ...], request: Understood) -> bool:
    """Return whether the agent has asked for the same topics so often that it is enough."""
    messages = [understood(line.text) for line in before if line.sender == "assistant" and not line.calls]
    return sum(set(one.topics) >= set(request.topics) for one in messages) >= _ENOUGH_REQUESTS


def _hands_over(lines: tuple[Line, ...]) -> bool:
    """Check whether the agent announced or called a transfer to a human."""
    for line in lines:
        if line.sender != "assistant":
            continue
        if any("transfer" in call.name for call in line.calls):
            return True
        for sentence in _SENTENCE.split(line.text[:LONGEST].lower()):
            if not line.calls and _HANDS.search(sentence) and not _NOT.search(sentence):
                return True
    return False


def _makes_progress(lines: tuple[Line, ...]) -> bool:
    """Return whether the agent ever brought something about, refused something, or asked whether there is more."""
    messages = (understood(line.text) for line in lines if line.sender == "assistant" and not line.calls)
    return any(one.completes or one.closes or one.refuses for one in messages)


def _reason(task: Tau2Task) -> str:
    """Return the reason for a task's call; instructions that are one text come back whole."""
    return task.instructions if isinstance(task.instructions, str) else task.instructions.reason_for_call


def _mentions(want: Want, speech: str) -> bool:
    """Return whether a speech has enough of a want's words."""
    return _overlaps(want.say, speech, _MENTION_SHARE)


def _overlaps(text: str, speech: str, share: float) -> bool:
    """Return whether a speech has more than a share of a text's content words; a text with fewer than three has it."""
    stems = _stems(text)
    return len(stems) < 3 or len(stems & _stems(speech)) > share * len(stems)


def _stems(text: str) -> set[str]:
    """Return the stems of a text's words without the common ones."""
    return {word[:_STEM] for word in _WORD.findall(text[:LONGEST].lower()) if word not in _COMMON}


def _bare(text: str) -> str:
    """Return a text in lower case, without the signs that end the conversation, cut to LONGEST."""
    for stop in USER_STOPS:
        text = text.replace(stop, " ")
    return text[:LONGEST].lower().replace("\u2019", "'").strip()


def unasked_tools(calls: Sequence[str], words: Iterable[str]) -> Iterator[str]:
    """Yield the writing tools among a user's calls that none of an agent's texts asks for or touches on.

    Args:
        calls: the names of writing tools.
        words: what the agent has said so far.
    """
    texts = tuple(words)
    for name in dict.fromkeys(calls):
        touched = any(_touches(name, text[:20_000].lower()) for text in texts)
        if not touched and not any(name in _requested_tools(text[-LONGEST:]) for text in texts):
            yield name


def refers(text: str) -> bool:
    """Return whether an agent's words ask for something by a mere "it"."""
    return bool(_REFERS.search(text[:20_000].lower()))


def _touches(name: str, text: str) -> bool:
    """Return whether a text names a tool or asks for what it does, not only forbids it; True for one without words."""
    if name in text or name not in _TOUCHED:
        return True
    parts = [part for part in _SENTENCE.split(text) if _TOUCHED[name].search(part)]
    return any(not _FORBIDDEN[name].search(part) for part in parts)


def _requested_tools(text: str) -> set[str]:
    """Return the tools that a text's requests lead to."""
    return {step.tool for request in requests(text) for step in plan(request)}


def ungrounded_claims(text: str, scenario: str, before: Sequence[Line]) -> Iterator[str]:
    """Yield a user's claims about actions or readings of its phone for which none of its tools was used.

    Args:
        text: what it says.
        scenario: what it was told at the start, which it may repeat.
        before: the lines before.
    """
    speech, briefing = text[:20_000].lower().replace("\u2019", "'"), scenario.lower()
    used = {call.name for line in before if line.sender == "user" for call in line.calls}
    for spoken, plain, tools in _SPOKEN:
        claim = spoken.search(speech)
        if claim is not None and not used.intersection(tools) and not plain.search(briefing):
            yield claim[0]
    bar = _BAR.search(speech)
    if bar is not None and not _BAR.search(briefing) and not _has_status_bar(before):
        yield bar[0]


def _has_status_bar(before: Sequence[Line]) -> bool:
    """Return whether a reply to the user's tools has shown the status bar."""
    replies = (reply for line in before for reply in line.results if reply.requestor == "user")
    return any("status bar" in reply.content.lower() for reply in replies)
