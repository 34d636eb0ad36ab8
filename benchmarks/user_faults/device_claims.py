"""A telecom customer's actions and claims are checked: what nobody asked for, and what was never done or seen."""

import re
from collections.abc import Iterable, Iterator, Sequence

from agent_envs.envs.tau2.dialogue import Line
from agent_envs.envs.tau2.users.device import plan, requests
from agent_envs.envs.tau2.users.device_words import LONGEST

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


def unasked(calls: Sequence[str], words: Iterable[str]) -> Iterator[str]:
    """Yield the writing tools among a user's calls that none of an agent's texts asks for or touches on.

    Args:
        calls: the names of writing tools.
        words: what the agent has said so far.
    """
    texts = tuple(words)
    for name in dict.fromkeys(calls):
        touched = any(_touched(name, text[:20_000].lower()) for text in texts)
        if not touched and not any(name in _asked(text[-LONGEST:]) for text in texts):
            yield name


def refers(text: str) -> bool:
    """Return whether an agent's words ask for something by a mere "it"."""
    return bool(_REFERS.search(text[:20_000].lower()))


def _touched(name: str, text: str) -> bool:
    if name in text or name not in _TOUCHED:
        return True
    parts = [part for part in _SENTENCE.split(text) if _TOUCHED[name].search(part)]
    return any(not _FORBIDDEN[name].search(part) for part in parts)


def _asked(text: str) -> set[str]:
    return {step.tool for request in requests(text) for step in plan(request)}


def ungrounded(text: str, scenario: str, before: Sequence[Line]) -> Iterator[str]:
    """Yield what a user says it did or saw on its phone though none of its tools was used for it.

    Args:
        text: what it says.
        scenario: what it was told at the start, which it may repeat.
        before: the lines before.
    """
    said, told = text[:20_000].lower().replace("\u2019", "'"), scenario.lower()
    used = {call.name for line in before if line.sender == "user" for call in line.calls}
    for spoken, plain, tools in _SPOKEN:
        found = spoken.search(said)
        if found is not None and not used.intersection(tools) and not plain.search(told):
            yield found[0]
    bar = _BAR.search(said)
    if bar is not None and not _BAR.search(told) and not _shown(before):
        yield bar[0]


def _shown(before: Sequence[Line]) -> bool:
    replies = (reply for line in before for reply in line.results if reply.requestor == "user")
    return any("status bar" in reply.content.lower() for reply in replies)
