"""`read_requests` finds what an agent's words ask a telecom customer to read or do on the phone.

Words are cut into sentences and clauses. A clause is passed over where it forbids, offers, thanks, tells what the agent does,
or rests on a failure; in what is left the nearest verbs say what is to be done with the things that are named.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import SimpleNamespace

from agent_envs.base.protocol import Call
from agent_envs.base.serialization import canonical_json, state_type
from agent_envs.envs.tau2.actions import read_action
from agent_envs.envs.tau2.telecom_device import user_kit
from agent_envs.envs.tau2.users.agent_words import sections
from agent_envs.envs.tau2.users.wording import SHORT

LONGEST, MOST_CLAUSES, MOST_REQUESTS = 20_000, 400, 24
READING = {
    "airplane": "check_network_status", "data": "check_network_status", "roaming": "check_network_status",
    "saver": "check_data_restriction_status", "wifi_calling": "check_wifi_calling_status", "wifi": "check_wifi_status",
    "vpn": "check_vpn_status", "mode": "check_network_mode_preference", "network": "check_network_status",
    "speed": "run_speed_test", "sim": "check_sim_status", "apn": "check_apn_settings", "mms": "can_send_mms",
    "apps": "check_installed_apps", "payment": "check_payment_request", "bar": "check_status_bar",
}  # fmt: skip
TOGGLES = {
    "airplane": "toggle_airplane_mode", "data": "toggle_data", "roaming": "toggle_roaming",
    "saver": "toggle_data_saver_mode", "wifi_calling": "toggle_wifi_calling", "wifi": "toggle_wifi",
}  # fmt: skip
# Of each switch: what its reading tool shows where it is on, and where it is off.
STATES = {
    "airplane": ("Airplane Mode: ON", "Airplane Mode: OFF"), "wifi": ("Wi-Fi is ON", "Wi-Fi is turned OFF"),
    "data": ("Mobile Data Enabled: Yes", "Mobile Data Enabled: No"), "saver": ("mode is ON", "mode is OFF"),
    "roaming": ("Data Roaming Enabled: Yes", "Data Roaming Enabled: No"), "wifi_calling": ("turned ON", "turned OFF"),
    "vpn": ("ON and connected", ""),
}  # fmt: skip
ACTIONS = {"reboot": "reboot_device", "reseat": "reseat_sim_card", "reset": "reset_apn_settings", "pay": "make_payment"}
MODES = {"auto": "4g_5g_preferred", "five": "4g_5g_preferred", "four": "4g_only", "three": "3g_only", "two": "2g_only"}
_WORDS = {name: one.compiled for name, one in sections("device_words.txt", re.IGNORECASE).items()}
terms = SimpleNamespace(**{name.upper(): pattern for name, pattern in _WORDS.items()})
VERBS, NAME_PATTERNS = (
    {name.removeprefix(kind): pattern for name, pattern in _WORDS.items() if name.startswith(kind)}
    for kind in ("verbs ", "named ")
)
# The words that a request may have: it is carried out where it has no other.
_VOCABULARY = frozenset(re.findall("[a-z]+", terms.VOCABULARY.pattern))
_LITERAL = re.compile(rf"\b({'|'.join(sorted(user_kit.tools, key=len, reverse=True))})\b(?:\s*\(([^()]{{0,600}})\))?")
_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "‑": "-", "*": None, "`": None, "#": None})
_SHORT = re.compile(rf"(?<![\w'])(?:{'|'.join(SHORT)})(?![\w'])(?!\.\w)", re.IGNORECASE)
_ENDS = re.compile(r"(?<=[.!?])\s+|\n+")
_NEEDS_ARGUMENTS = frozenset(name for name, tool in user_kit.tools.items() if tool.parameters.get("required"))


@state_type
@dataclass(frozen=True, slots=True)
class Request:
    """One request for a look or a change on the phone.

    Attributes:
        tool: the user's tool that brings it about.
        arguments: canonical JSON.
        goal: "on" or "off": a switch is to be brought there, which is looked up first; "" calls the tool as it is.
        look: the reading tool that shows whether it is to be done at all, "location" for where the customer is, or "".
        told: canonical JSON of that tool's arguments.
        shows: what it has to show, any case; after "!" what it must not show.
        label: the line of the answer that is asked for, where it is one switch among many; "" for all of it.
    """

    tool: str
    arguments: str = "{}"
    goal: str = ""
    look: str = ""
    told: str = "{}"
    shows: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class _Clause:
    text: str
    start: int
    joint: str
    condition: bool = False
    silent: bool = False  # it asks for nothing, and says what a pronoun may stand for


@dataclass(slots=True)
class _Reading:
    """The state of a reading: its things so far, and what a pronoun may stand for."""

    things: list[str] = field(default_factory=list)
    permissions: tuple[str, ...] = ()
    app: str = "messaging"
    sim_out: bool = False
    action: str = ""


_MISSING = Request("", look="check_sim_status", shows="No SIM card detected")
_WHETHER = re.compile(r"\b(?:check|see|tell me|know|verify|look|confirm|say)\s*$", re.I)
Hits = list[tuple[int, Request]]


@lru_cache(maxsize=256)  # agents repeat themselves, in groups of episodes even more
def read_requests(text: str, names: frozenset[str] = frozenset()) -> tuple[tuple[Request, ...], bool]:
    """Parse an agent's words into requests for the phone, in order, each once, some at most; and whether some are unclear.

    Nothing is changed on words that are not understood, each of them: where a sentence has others, or rests on what the
    phone does not show, what it names is read instead. Literal calls such as
    `set_network_mode_preference(mode="3g_only")` are taken exactly. Quotations ask for nothing. Of `names`, which the customer
    knows, a reason may speak.
    """
    reading, requests, unclear = _Reading(), dict[Request, None](), False
    text = _SHORT.sub(lambda short: SHORT[short[0].lower()], text[:LONGEST].translate(_QUOTES))
    parts = [part for part in _ENDS.split(unquoted(text)) if part.strip()]
    held_back = any(map(_is_stray_condition, parts, ["", *parts]))
    for before, sentence in zip(["", *parts], parts, strict=False):
        subjects = list(reading.things)
        hits = _literal_calls(sentence) if _LITERAL.search(sentence) else _read(reading, sentence)
        changes = any(user_kit.tools[one.tool].writes for _, one in hits)
        asks = "?" not in sentence[-3:] or terms.CAN_YOU.search(sentence)
        doubtful = changes and (held_back or not asks or not _is_plain(_without_reasons(sentence, names), before))
        if doubtful or (not hits and _is_hint(sentence)):
            things = [str(one.lastgroup) for one in terms.THINGS.finditer(sentence)] or subjects[:1]
            hits = [hit for hit in hits if not user_kit.tools[hit[1].tool].writes]
            hits += [(0, Request(READING[thing], label=label_of(thing))) for thing in dict.fromkeys(things)]
            unclear = unclear or doubtful and bool(asks) and not terms.AGENT_DOES.search(sentence)
        requests |= dict.fromkeys(request for _, request in sorted(hits, key=lambda hit: hit[0]))
        if len(requests) >= MOST_REQUESTS:
            break
    return tuple(requests)[:MOST_REQUESTS], unclear


def requests(text: str, names: frozenset[str] = frozenset()) -> tuple[Request, ...]:
    """Return the requests for the phone in an agent's words; () for none."""
    return read_requests(text, names)[0]


def _without_reasons(sentence: str, names: frozenset[str]) -> str:
    """Return a sentence in which the reasons that it gives no longer hold names that the customer knows of itself."""
    for reason in terms.REASON.findall(sentence):
        sentence = sentence.replace(reason, " ".join(word for word in reason.split() if word not in names))
    return sentence


def unquoted(text: str) -> str:
    """Return a text without its quotations of four words and more."""
    return _WORDS["quoted"].sub(lambda match: " " if len(match[0].split()) > 3 else match[0], text)


def _is_plain(sentence: str, before: str) -> bool:
    """Return whether all words of a sentence are known; one that points back needs a plain sentence before it."""
    sentence = terms.CARRIED.sub(" ", sentence)
    rest = _LITERAL.sub(" ", terms.COURTESY.sub(" ", terms.VOCATIVE.sub("", sentence)))
    subject = terms.THINGS.search(before) or terms.PERMIT.search(before)
    back, led = terms.BACK.search(rest), subject is not None and _is_plain(before, "")
    if back and not led and ("?" in before or "if" in back[0].lower() or "case" in back[0].lower()):
        return False
    rest = terms.BACK.sub(" ", rest)
    for match in terms.STATED.finditer(rest):
        pointing = terms.IT.fullmatch(match["what"].strip()) and not terms.THINGS.search(rest[: match.start()])
        if _state_of_condition(_Reading(), match["what"], sentence) is not None and (led or not pointing):
            rest = terms.OTHERWISE.sub(" ", rest.replace(match["how"], " ", 1))
    return all(word in _VOCABULARY for word in re.findall(r"[^\W\d_]+", rest.lower().replace("'", "")))


def _is_stray_condition(sentence: str, before: str) -> bool:
    """Return whether a sentence sets a condition, is not plain, and asks for no change on the phone."""
    if terms.HARMLESS.search(sentence) or not (terms.MARKS.search(sentence) or terms.POINTS.search(sentence)):
        return False
    return not _is_plain(sentence, before) and not any(
        user_kit.tools[one.tool].writes for _, one in _read(_Reading(), sentence)
    )


def _is_hint(sentence: str) -> bool:
    """Return whether a sentence without a request hints at one: a thing and hinting words, not about the agent's own doing."""
    subject = terms.THINGS.search(sentence) or terms.PRONOUN.search(sentence)
    framed = (terms.AGENT_DOES, terms.AGENT_DID, terms.OFFERS, terms.FORBIDS)
    return bool(subject and terms.HINTS.search(sentence)) and not any(frame.search(sentence) for frame in framed)


def _literal_calls(sentence: str) -> Hits:
    """Return the tool calls written out in a sentence; forbidden ones, and ones that lack arguments, are left out."""
    hits = []
    for match in _LITERAL.finditer(sentence):
        name, body, before = match[1], (match[2] or "").strip(), sentence[max(0, match.start() - 60) : match.start()]
        text = f'{{"name":"{name}","arguments":{body}}}' if body.startswith("{") else f"{name}({body})"
        call = read_action(text, (name,))
        if not isinstance(call, Call) or terms.FORBIDS.search(before):
            continue
        arguments = call.calls[0].arguments
        if arguments != "{}" or name not in _NEEDS_ARGUMENTS:
            hits.append((match.start(), Request(name, arguments)))
    return hits


def _read(reading: _Reading, sentence: str) -> Hits:
    """Return a sentence's requests with their places; with a condition, those for its other case come first."""
    question = sentence.rstrip(" \"')").endswith("?")
    sentence = terms.EITHER.sub(" ", terms.IDIOMS.sub(" ", sentence))
    sentence, condition = _split_condition(reading, sentence)
    hits: Hits = []
    for number, part in enumerate(terms.OTHERWISE.split(sentence) if condition else [sentence]):
        part_hits = _read_plain(reading, part, question)
        if condition:  # what is done otherwise comes first: afterwards the phone may have changed
            part_hits = [(place - number * LONGEST, _attach(condition, one, number > 0)) for place, one in part_hits]
        hits += part_hits
    return hits


def _read_plain(reading: _Reading, sentence: str, question: bool) -> Hits:
    """Return the requests of a sentence without conditions: by clauses, then permissions and modes; remembers its things."""
    sentence = terms.CYCLE.sub(r"\1_then_\2", sentence)
    clauses = _mark_silent(_clauses(sentence))
    reading.sim_out, reading.action = False, ""
    hits: Hits = []
    for clause in clauses:
        hits += _requests_in(reading, clause, question)
    asking = [clause for clause in clauses if not clause.silent]
    if asking:
        start, whole = asking[0].start, " , ".join(clause.text for clause in asking)
        hits += [(start + place, request) for place, request in _permissions(reading, whole, question)]
        hits += [(start + place, request) for place, request in _modes(whole, question)]
    return hits


def _split_condition(reading: _Reading, sentence: str) -> tuple[str, Request | None]:
    """Return a sentence without its condition, and that as a request without a tool; all of it and None without one."""
    for match in terms.STATED.finditer(sentence):
        condition = _state_of_condition(reading, match["what"], sentence)
        whether = _WHETHER.search(sentence[: match.start()])  # "check if it is on" asks for a look
        if condition is None or terms.FAILURE.search(match["what"]) or whether:
            continue
        if match["how"].lower().startswith("unless"):
            condition = _turn_around(condition)
        reading.things = [str(one.lastgroup) for one in terms.THINGS.finditer(match["what"])] or reading.things
        rest = f"{sentence[: match.start()]} {sentence[match.end() :].lstrip(' ,;')}"
        return rest, condition
    return sentence, None


def _state_of_condition(reading: _Reading, what: str, sentence: str) -> Request | None:
    """Return the state that a condition tells of as a look ("!" for its opposite), an empty one for "it"; None for none."""
    denied = bool(terms.IS_NOT.search(what))
    if terms.ABROAD.search(what) or terms.AT_HOME.search(what):
        abroad = bool(terms.ABROAD.search(what)) != denied
        return Request("", look="location", shows="abroad" if abroad else "!abroad")
    things = [str(one.lastgroup) for one in terms.THINGS.finditer(what)]
    if len(set(things)) > 1 and re.search(r"\b(?:and|or)\b", what):
        return None
    if terms.NO_SIGNAL.search(what):
        return Request("", look="check_network_status", shows="Cellular Signal: none")
    if terms.PERMIT.search(what) and terms.LACKS.search(what):
        names = [name for name, pattern in NAME_PATTERNS.items() if pattern.search(what)]
        reading.permissions = tuple(names)
        app = canonical_json({"app_name": reading.app})
        return Request("", look="check_app_permissions", told=app, shows=f"!{names[0]}") if names else None
    mode = terms.MODE_IS.search(what) if things[:1] == ["mode"] else None
    if mode:
        return Request("", look="check_network_mode_preference", shows=MODES[str(mode.lastgroup)])
    if terms.SIM_OUT.search(what) and ("sim" in things or (not things and re.search(r"\bsim\b", sentence, re.I))):
        return _MISSING
    if terms.IT.fullmatch(what.strip()):
        return Request("")  # "if it is off": a switch is looked at anyway
    off, on = terms.IS_OFF.search(what), terms.IS_ON.search(what)
    if not (off or on):
        return None
    thing = next((one for one in things if one in STATES), "")
    if not thing:
        return None
    state = STATES[thing][0]
    return Request("", look=READING[thing], shows=state if bool(on and not off) != denied else f"!{state}")


def _turn_around(condition: Request) -> Request:
    """Return a request with the opposite condition; one without a condition unchanged."""
    shows = condition.shows
    return replace(condition, shows=shows[1:] if shows.startswith("!") else f"!{shows}" if shows else "")


def _attach(condition: Request, request: Request, otherwise: bool) -> Request:
    """Return a request done only on a condition (`otherwise`: its opposite); unchanged where that is about its own switch."""
    if not condition.look or not otherwise and _is_own_switch(condition, request):
        return request
    turned = _turn_around(condition) if otherwise else condition
    return replace(request, look=turned.look, told=turned.told, shows=turned.shows)


def _is_own_switch(condition: Request, request: Request) -> bool:
    """Return whether a condition is about the look requested, or about the switch that the request is to set."""
    things = (thing for thing, (state, _) in STATES.items() if state in condition.shows)
    return request.tool == condition.look or any(
        request.goal and TOGGLES.get(thing) == request.tool for thing in things
    )


def _clauses(sentence: str) -> Iterator[_Clause]:
    """Yield a sentence's clauses, each with its position and the conjunction before it; blank ones are left out."""
    parts, place, joint = terms.JOINT.split(sentence, maxsplit=MOST_CLAUSES), 0, ""
    for number, part in enumerate(parts):
        if number % 2:
            joint = part.strip().lower()
        elif part.strip():
            yield _Clause(part, place, joint)
        place += len(part)


def _mark_silent(clauses: Iterator[_Clause]) -> list[_Clause]:
    """Return the clauses, those that ask for nothing marked silent; what a prohibition forbids, or a failure leads, is cut."""
    clause_list, silent, forbidden = [], False, False
    for clause in clauses:
        asks = bool(terms.YOU_ARE_ASKED.search(clause.text))
        condition = bool(terms.CONDITION.search(clause.text))
        if condition and terms.FAILURE.search(clause.text):
            break
        silent, goes_on = _is_silent(clause, asks, silent and not condition), False
        if not silent and (forbid := terms.FORBIDS.search(clause.text)):
            forbidden, clause = True, replace(clause, text=clause.text[: forbid.start()])
            goes_on = True
        elif forbidden and clause.joint in ("or", "nor"):
            continue
        forbidden = goes_on
        dropped = silent or terms.THANKS.search(clause.text) or (terms.AGENT_DID.search(clause.text) and not asks)
        if clause.text.strip():
            clause_list.append(replace(clause, condition=condition, silent=bool(dropped)))
    return clause_list


def _is_silent(clause: _Clause, asks: bool, silent: bool) -> bool:
    """Return whether a clause asks for nothing: it offers, tells a purpose, or goes on with what the agent itself does."""
    if terms.OFFERS.search(clause.text) or (clause.joint == "so" and terms.PURPOSE.search(clause.text)):
        return True
    return not asks and (silent or bool(terms.AGENT_DOES.search(clause.text)))


def _requests_in(reading: _Reading, clause: _Clause, question: bool) -> Hits:
    """Return a clause's requests, [] if silent or a condition; a pronoun means the last things. Remembers things and action."""
    things = {str(match.lastgroup): clause.start + match.start() for match in terms.THINGS.finditer(clause.text)}
    if clause.silent or (clause.condition and reading.action != "check"):
        reading.things = list(things) or reading.things
        reading.sim_out = reading.sim_out or bool("sim" in things and terms.SIM_OUT.search(clause.text))
        return []
    hits = _direct_requests(reading, clause, things)
    action = _action(clause, question) or (reading.action if _goes_on(clause) else "")
    if not things and _points_back(clause.text, action):
        things = dict.fromkeys(reading.things, clause.start)
    hits += [(place, request) for thing, place in things.items() for request in _requests_for(thing, action)]
    reading.things, reading.action = list(things) or reading.things, action
    return hits


def _direct_requests(reading: _Reading, clause: _Clause, things: dict[str, int]) -> Hits:
    """Return requests with a verb of their own (restart, reseat, reset, pay), and drop their objects from `things`."""
    hits: Hits = []
    again = terms.RESET_IT.search(clause.text) if "apn" in reading.things else None
    if again and not clause.condition:
        hits.append((clause.start + again.start(), Request(ACTIONS["reset"])))
    for verb, pattern in VERBS.items():
        match = None if clause.condition else pattern.search(clause.text)
        if match and _is_order(clause.text, match):
            request = Request(ACTIONS[verb])
            missing = verb == "reseat" and reading.sim_out
            hits.append((clause.start + match.start(), _attach(_MISSING, request, False) if missing else request))
            things.pop({"reseat": "sim", "reset": "apn", "pay": "payment"}.get(verb, ""), None)
    return hits


def _points_back(text: str, action: str) -> bool:
    """Return whether a clause that names nothing means what was named before: "it" for an action, for "check" a look at it."""
    pattern = terms.CHECK_IT if action == "check" else terms.PRONOUN
    return bool(action and pattern.search(text))


def _goes_on(clause: _Clause) -> bool:
    """Return whether a clause goes on with the action before it: joined by `and`, `or`, `nor` or a comma, and short."""
    return clause.joint in ("and", "or", "nor", ",") and len(clause.text.split()) <= 8


def _action(clause: _Clause, question: bool) -> str:
    """Return a clause's action: "on", "off", "on_then_off" or the reverse, "flip", "check" (also for a question), or ""."""
    cycled = terms.CYCLED.search(clause.text)
    if cycled:
        return str(cycled[1])
    orders = []
    for action, pattern in (("off", terms.OFF), ("on", terms.ON), ("flip", terms.FLIP)):
        match = pattern.search(clause.text)
        if match and _is_order(clause.text, match):
            orders.append((action == "flip", match.start(), action))
    if orders:
        return min(orders)[2]
    return "check" if question or terms.CHECK.search(clause.text) else ""


def _is_order(text: str, match: re.Match[str]) -> bool:
    """Return whether a verb is an order: none of another subject, and a gerund only behind words that lead to it."""
    before = text[: match.start()]
    if terms.OTHER_SUBJECT.search(before):
        return False
    gerund = match[0].split()[0].endswith("ing")
    return not gerund or bool(terms.GERUND.search(before))


def _requests_for(thing: str, action: str) -> Iterator[Request]:
    """Yield the requests for an action on a thing: its look, the VPN's call, or its switch with a goal; none if unfit."""
    if action == "check":
        yield Request(READING[thing], label=label_of(thing))
    elif thing == "vpn" and action in ("on", "off"):
        yield Request("connect_vpn" if action == "on" else "disconnect_vpn")
    elif thing in TOGGLES and action:
        goals = [""] if action == "flip" else action.split("_then_")
        yield from (Request(TOGGLES[thing], goal=goal) for goal in goals)


def label_of(thing: str) -> str:
    """Return the line that tells of a switch among others; "" where its reading tool shows nothing else."""
    one_of_many = READING[thing] == "check_network_status" and thing in STATES
    return STATES[thing][0].split(":")[0] if one_of_many else ""


def _permissions(reading: _Reading, text: str, question: bool) -> Hits:
    """Return requests about an app's permissions, look before grant; [] without such words. Remembers app and names."""
    app = terms.APP.search(text)
    if app:
        reading.app = "browser" if "browser" in app[0].lower() else "messaging"
    permit = terms.PERMIT.search(text)
    names = tuple(name for name, pattern in NAME_PATTERNS.items() if pattern.search(text)) if permit else ()
    reading.permissions = names or reading.permissions
    grant, check = terms.GRANT.search(text), terms.CHECK.search(text)
    applies = permit or (reading.permissions and grant and re.search(r"\b(?:them|it)\b", text.lower()))
    if not applies:
        return []
    hits: Hits = []
    if (check or question) and (not grant or (check and check.start() < grant.start())):
        hits.append((0, Request("check_app_permissions", canonical_json({"app_name": reading.app}))))
    if grant and _is_order(text, grant):
        values = ({"app_name": reading.app, "permission": name} for name in reading.permissions)
        hits += [(grant.start(), Request("grant_app_permission", canonical_json(value))) for value in values]
    return hits


def _modes(text: str, question: bool) -> Hits:
    """Return the request for a network mode in a text, as a list; [] where there is none, a question, or no order."""
    match = terms.MODE_TO.search(text) or terms.MODE.search(text)
    if not match or (question and not terms.CAN_YOU.search(text)) or not _is_order(text, match):
        return []
    mode = MODES[str(match.lastgroup)]
    return [(match.start(), Request("set_network_mode_preference", canonical_json({"mode": mode})))]
