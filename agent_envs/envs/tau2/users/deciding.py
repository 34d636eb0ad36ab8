"""`decided` holds what an agent proposes against what a customer wants: each by what it would change, never by its wording.

A proposal and a want are read alike (`read_act`). A proposal is wanted where the act is one that the want may be brought about
by, on an object that the want speaks of, and no value in it (id, date, cabin, count, means of payment, ...) differs from those
that the customer has in mind. What names nothing, here or in the agent's words before it, is ambiguous.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from agent_envs.envs.tau2.user_script import UserScript, Want
from agent_envs.envs.tau2.users.acts import Act, alike, births, granted, lexicon, points, read_act, unheard_of
from agent_envs.envs.tau2.users.agent_words import pattern
from agent_envs.envs.tau2.users.mind import ids_known, ids_of
from agent_envs.envs.tau2.users.shelf import NOTHING, Shelf

Verdict = Literal["yes", "no", "ask"]
_ABROAD = re.compile(r"\b(?:abroad|travell?ing|roaming|france|overseas)\b")
_LIMIT = re.compile(
    r"\b(?:at most|up to|no more than|less than|under|budget of|maximum of) "
    r"(?:\$ ?(?P<sign>\d+(?:\.\d+)?)|(?P<word>\d+(?:\.\d+)?) dollars)"
)
_OPEN = re.compile(r"\b(?:at least|just enough|steps?)\b")
_ENDS_IT = re.compile(r"n't\b|\b(?:not|no|never|nobody|nothing|stop|shut|end|without)\b")
_RELATIVE = re.compile(
    r"\b(?:days?|weeks?) (?:later|earlier|after|before)\b|\b(?:next|following|any|another|other) (?:day|week|date)\b"
)
_SENT_TO = re.compile(r"\b(?:sent|shipped|delivered) to\b|\b(?:send|ship|deliver) (?:it|them|that|this) to\b")
_NEGATED = re.compile(r"n't\b|\b(?:not|no)\b")
_ENDS = frozenset({"resume", "enable", "pay", "charge", "add"})  # of trouble with a phone, on the agent's side
_UNDOES = frozenset({"cancel", "return", "refund", "suspend", "resume", "close", "pay", "disable"})
_EXTRAS = frozenset(
    {"insurance", "extra", "warranty", "plan", "inbound", "profile", "store credit", "phone", "elsewhere"}
)
_STATES = re.compile(
    r"\b(?:currently|current|at the moment|right now|existing|previous|already|originally|has been|have been)\b"
)
_WHOLE = re.compile(r"\b(?:all|both|every\w*|items|two|three|four|five|they|them|these|those)\b")
_IN_PLACE = re.compile(r"([\w' -]+?) in place of ([\w' -]+?)\.")
_GOES = re.compile(
    r"\b(?:replac\w+|instead of|in place of|remov\w+|tak\w+|chang\w+|swap\w*)(?: the)?(?: passenger| name)?(?: of)? ~"
    r"|~ (?:would|will|to|can) be (?:replaced|removed|taken|changed)|~'s? (?:seat|place)"
)
_CHECKED = re.compile(r"\b(?:correct|right|accurate|good|fine|confirm)\b")


@dataclass(frozen=True, slots=True)
class Decision:
    """What a customer answers to a proposal, and the places of the wants that a yes is about."""

    verdict: Verdict
    places: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Proposal:
    """What an agent asks a yes for.

    Attributes:
        asked: the sentences that ask.
        told: what the same message says besides, without what it refuses.
        before: the agent's words before that message.
        ids: the numbers of orders, reservations and phones in the message, in small letters.
        names: pairs of words that may be a person's name, in small letters.
        shelf: what the shop sells.
        proposing: the sentences ask for a yes; those of a report tell what was done.
    """

    asked: tuple[str, ...]
    told: str
    before: str = ""
    ids: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    shelf: Shelf = NOTHING
    proposing: bool = True


def decided(script: UserScript, places: tuple[int, ...], proposal: Proposal) -> Decision:
    """Return what a customer answers to a proposal.

    Args:
        script: what it knows and wants.
        places: the wants that may be meant, the likeliest first.
        proposal: what the agent asks a yes for.
    """
    plain = tuple(asked for asked in proposal.asked if not read_act(asked).bare)
    answers = [_answer(script, places, asked, proposal) for asked in plain or proposal.asked]
    for verdict in ("no", "ask"):  # one thing that is not wanted is enough
        if any(one.verdict == verdict for one in answers):
            return Decision(verdict)
    return Decision("yes", tuple(dict.fromkeys(place for one in answers for place in one.places)))


def _answer(script: UserScript, places: tuple[int, ...], asked: str, proposal: Proposal) -> Decision:
    act = read_act(asked, proposal.proposing)
    named = _specific(act) or act.valued
    if points(asked):
        return Decision("ask")
    if unheard_of(asked):
        return Decision("no")
    aims = [aim_of(script, script.wants[place]) for place in places]
    known = frozenset(verb for aim in aims for verb in aim.verbs)
    named = named or any(act.objects & aim.objects for aim in aims)
    named = named or any(_names_goods(script, script.wants[place], asked, proposal) for place in places)
    plain = set(_list("broad")) | (set(_list("follows")) - {"resume"})
    if named or act.verbs & known - set(_list("broad")) or act.verbs - plain:
        return _held(script, places, act, asked, proposal)
    return _pointed(script, places, act, asked, proposal)


def _pointed(script: UserScript, places: tuple[int, ...], act: Act, asked: str, proposal: Proposal) -> Decision:
    """Return the answer to a sentence that points at what was said before it ("Shall I go ahead?")."""
    for text in (proposal.told, proposal.before):
        if act.verbs:
            text = _NEGATED.sub(" ", text)  # "You have no insurance yet. Shall I add it?"
        told = read_act(text)
        bare = told.bare and not any(_names_goods(script, script.wants[place], text, proposal) for place in places)
        if bare and told.looks:
            return Decision("yes", places[:1])
        if bare:  # "It costs $100 more. Shall I proceed?" is about what was said before
            continue
        offers = _offers(text)
        whole = " . ".join([*(offers or [text]), asked])
        return _held(script, places, read_act(whole, proposal.proposing), whole, proposal, loosely=not offers)
    if act.looks or (_CHECKED.search(asked) and proposal.told):
        return Decision("yes", places[:1])
    return Decision("no" if act.verbs - set(_list("broad")) else "ask")


def _offers(text: str) -> list[str]:
    """Return the sentences in which an agent says what it would do."""
    return [part for part in text.split(" . ") if pattern("offers").search(part) and not read_act(part).bare]


def _held(
    script: UserScript, places: tuple[int, ...], act: Act, text: str, proposal: Proposal, loosely: bool = False
) -> Decision:
    """Return the answer to an act; `loosely` where the text tells more than what is proposed."""
    if act.looks and not act.verbs - {"keep"} and not _specific(act):
        return Decision("yes", places[:1])
    ids = frozenset(found for found in proposal.ids if found in text)
    context = "" if loosely else " . ".join(part for part in proposal.told.split(" . ") if not _STATES.search(part))
    found = tuple(
        place
        for place in places
        if _serves(
            script, script.wants[place], act, ids, loosely, _names_goods(script, script.wants[place], text, proposal)
        )
        and not (context and _belied(script, script.wants[place], act, context, proposal.ids))
        and not _other_goods(script, script.wants[place], text, proposal)
        and not _other_cabin(script, script.wants[place], text, proposal)
        and not _other_person(script, script.wants[place], text, proposal)
    )
    return Decision("yes", _meant(script, found, act, ids, loosely)) if found else Decision("no")


def _belied(script: UserScript, want: Want, act: Act, context: str, ids: frozenset[str]) -> bool:
    """Return whether what a message tells beside its question has another value than the want ("... Shall I book that?")."""
    told, offered = read_act(context), read_act(" . ".join(_offers(context)))
    if offered.objects & _EXTRAS - aim_of(script, want).objects - _spoken(script).objects:
        return True
    if act.verbs & _UNDOES:  # then most of what is told is about what is undone
        told = replace(told, values=frozenset(one for one in told.values if one[0] in ("means", "card")))
    return differs(script, want, told, ids, loosely=True)


def _goods(script: UserScript, want: Want, shelf: Shelf) -> frozenset[str]:
    """Return the products that a want is about, if it is about items."""
    of_items = any(fact.topic in ("items", "options") for fact in want.facts)
    return shelf.named(_text(want)) if of_items or aim_of(script, want).verbs & {"return", "exchange"} else frozenset()


def _names_goods(script: UserScript, want: Want, text: str, proposal: Proposal) -> bool:
    """Return whether a text names one of a want's products, or one of their options."""
    own, shelf = _goods(script, want, proposal.shelf), proposal.shelf
    return bool(own) and bool(own & shelf.named(granted(text), own) or shelf.options(granted(text), own))


def _whole(text: str, proposal: Proposal) -> str:
    """Return all that a message tells, but for what it says of how things stand."""
    return " . ".join((*(part for part in proposal.told.split(" . ") if not _STATES.search(part)), text))


def _other_goods(script: UserScript, want: Want, text: str, proposal: Proposal) -> bool:
    """Return whether a proposal about a shop's items has other items than the want, not all of them, or other options."""
    shelf, own = proposal.shelf, _goods(script, want, proposal.shelf)
    if not own or aim_of(script, want).excepted:
        return False
    whole = granted(_whole(text, proposal))
    said = shelf.named(whole, own)
    if shelf.named(granted(text), own) - own or (said and not said & own):
        return True
    if said & own and own - said and not _WHOLE.search(whole):
        return True
    meant, offered = shelf.options(granted(_text(want)), own), shelf.options(whole, own)
    both = {field for field, _ in meant} & {field for field, _ in offered}
    return any(not {pair for pair in meant if pair[0] == field} & offered for field in both)


def _other_cabin(script: UserScript, want: Want, text: str, proposal: Proposal) -> bool:
    """Return whether a proposal has another cabin than the one that a traveller has booked and wants to keep."""
    kept = {proposal.shelf.cabins[one] for one in ids_of(want) if one in proposal.shelf.cabins}
    said = read_act(_whole(text, proposal)).of("cabin")
    if "upgrade" not in aim_of(script, want).denied:
        return False
    return not said & kept if kept and said else "business" in said


def _other_person(script: UserScript, want: Want, text: str, proposal: Proposal) -> bool:
    """Return whether a proposal puts another traveller than the want has in another's place, or one born on another day."""
    told = (_IN_PLACE.match(fact.say.lower()) for fact in want.facts if fact.topic == "passengers")
    found = next((one for one in told if one), None)
    if found is None:
        return False
    new, old = found.groups()
    whole, names = _whole(text, proposal), proposal.names
    if new not in names:
        alike = any(set(name.split()) & set(new.split()) and name != old for name in names)
        return alike or "remove" in read_act(text).verbs
    if any(_GOES.search(whole.replace(name, "~")) for name in names - {new, old}):
        return True
    born = {fact.value for fact in want.facts if fact.topic == "date_of_birth" and fact.value}
    said = births(whole)
    return bool(born and said - {fact.value for fact in script.facts} and not born & said)


def shares_values(script: UserScript, want: Want, text: str) -> bool:
    """Return whether a text has a value that only this want can be about: a date, a street, a count."""
    shared = read_act(text).values & aim_of(script, want).values
    return any(field not in ("money", "means", "card") for field, _ in shared)


def _meant(
    script: UserScript, places: tuple[int, ...], act: Act, ids: frozenset[str], loosely: bool
) -> tuple[int, ...]:
    """Return the wants that a yes is about, of those that an act may serve: by number, by object, else the likeliest."""
    by_number = tuple(place for place in places if ids & ids_of(script.wants[place]))
    aims = {place: aim_of(script, script.wants[place]) for place in places}
    by_object = tuple(place for place in places if act.objects & aims[place].objects)
    return by_number or by_object or (places if loosely else places[:1])


def _serves(script: UserScript, want: Want, act: Act, ids: frozenset[str], loosely: bool, named: bool) -> bool:
    aim = aim_of(script, want)
    if want.check is not None:
        return _mends(script, aim, act)
    verbs = act.verbs - (set(_list("follows")) - aim.verbs) or act.verbs
    if act.values & aim.values:
        verbs -= {"charge", "pay"} - aim.verbs
    if named:
        verbs -= {"add", "keep"}  # "I'd include both of them"
    if want.question and verbs:
        return False
    fit = {verb for verb in verbs if alike()[verb] & aim.verbs}
    if act.of("cabin") & aim.of("cabin"):  # then it is no matter whether that is up or down
        fit |= verbs & {"upgrade", "downgrade"}
    others = verbs - fit - set(_list("follows")) - ({"change"} if fit else set())
    if aim.verbs and verbs and (others and not loosely or not fit and (others or not loosely)):
        return False
    if (
        aim.objects
        and not verbs & aim.verbs - set(_list("broad"))
        and verbs
        and not act.objects & aim.objects
        and not act.values & aim.values
    ):
        return False  # an exchange is a change, but not of an address
    if (act.objects | act.verbs | {pair for pair in act.values if not aim.of(pair[0])}) & aim.denied:
        return False
    foreign = _specific(act) - aim.objects - _spoken(script).objects
    if "address" in aim.objects and "profile" not in aim.objects:
        foreign -= {"parcel"}
    if not (fit or act.objects & aim.objects or act.values & aim.values or ids or named):
        return False
    if loosely:  # it tells of more than what is proposed
        foreign = frozenset() if verbs & aim.verbs & _UNDOES else foreign & _EXTRAS
    if foreign or aim.excepted & act.words:
        return False
    return not differs(script, want, act, ids, loosely)


def _mends(script: UserScript, aim: Act, act: Act) -> bool:
    """Return whether an act of the agent's may mend a phone: it opens what is closed, at no price that was not agreed to."""
    verbs = act.verbs - set(_list("follows")) | act.verbs & _ENDS
    if (
        not (verbs or act.objects)
        or not verbs <= _ENDS
        or act.objects & {"plan", "insurance", "warranty", "phone", "extra"}
    ):
        return False
    if "roaming" in act.objects and not abroad(script):
        return False
    amount, agreed = act.of("gb"), aim.of("gb")
    if "add" in act.verbs and not (amount or "data" in act.objects):
        return False
    return not ("add" in act.verbs or amount) or bool(agreed and (not amount or amount & agreed))


def differs(script: UserScript, want: Want, act: Act, ids: frozenset[str], loosely: bool = False) -> bool:
    """Return whether an act has a value other than the one that a customer has in mind."""
    known = ids & ids_known(script)
    own = ids_of(want)
    if own and ids and not (known if loosely else known == ids):
        return True
    if own and known and not known & own and not loosely:  # the customer's own other number
        return True
    if "profile" in aim_of(script, want).objects and ids:  # an order has an address of its own
        return True
    if own and not ids & own and ids & frozenset().union(*map(ids_of, script.wants)):  # it is another want's
        return True
    aim = aim_of(script, want)
    if "book" in aim.verbs and act.denied & aim.objects & {"insurance", "bags"}:
        return True
    fields = {field for field, _ in act.values} - {"money"}
    if ("money", "0") in act.denied:  # where nothing is to be paid, the means make no difference
        fields -= {"means", "card"}
    if _RELATIVE.search(want.say.lower()):
        fields -= {"date"}
    if _OPEN.search(want.say):
        fields -= {"gb"}
    if any(_other(script, aim, act, field) for field in fields):
        return True
    return _dearer(want, act)


def _other(script: UserScript, aim: Act, act: Act, field: str) -> bool:
    """Return whether an act has another value of a field than a want, which has one."""
    if field == "city" or field == "date" and "book" in aim.verbs:
        return bool(act.of(field) - aim.of(field) and aim.of(field) - act.of(field))
    said, meant = _target(act, field), _target(aim, field)
    if field == "date" and {(field, value) for value in said} <= act.left & aim.left:
        return False  # "I can move you there from May 21"
    if field == "bag":
        said, meant = said | act.of("in all"), meant | aim.of("in all")
    meant = meant or _target(_spoken(script, wants=field in ("means", "card")), field)
    if not act.left and not said <= meant:
        said -= aim.of(field) - meant  # "your flight on May 23" is the one that is moved from May 23
    if field == "date":
        said, meant = _days(said, meant), _days(meant, said)
    return bool(said and meant and not said & meant) and not (field == "means" and "original" in meant)


def _target(act: Act, field: str) -> frozenset[str]:
    """Return the values of a field without those that are left for others."""
    return act.of(field) - {value for name, value in act.left if name == field} or act.of(field)


def _days(dates: frozenset[str], others: frozenset[str]) -> frozenset[str]:
    """Return dates as days alone, where some of them, or of others, have no month ("the 24th")."""
    bare = all("-" in date for date in dates | others)
    return dates if bare else frozenset(date.split("-")[-1] for date in dates)


@lru_cache(maxsize=1024)
def _spoken(script: UserScript, wants: bool = False) -> Act:
    """Return what a customer says of itself, and of all its wants: means of payment are the same for all."""
    return read_act(" . ".join((*(fact.say for fact in script.facts), *(map(_text, script.wants) if wants else ()))))


def _dearer(want: Want, act: Act) -> bool:
    """Return whether a proposal costs more than the customer's limit; what comes back is no cost."""
    limits = [float(found["sign"] or found["word"]) for found in _LIMIT.finditer(_text(want).lower())]
    asked = [float(money) for money in act.of("money")]
    return bool(limits and asked and min(asked) > max(limits)) and not act.verbs & {"return", "cancel", "refund"}


def _specific(act: Act) -> frozenset[str]:
    return act.objects - set(_list("asides"))


def _list(name: str) -> list[str]:
    return lexicon()[name]  # type: ignore[return-value]


def _text(want: Want) -> str:
    told = (want.say, *(fact.say for fact in want.facts), " ".join(want.signs))
    return " . ".join(told)


@lru_cache(maxsize=1024)
def aim_of(script: UserScript, want: Want) -> Act:
    """Return what a want is about doing, as a customer means it: with the verbs that its objects call for, where it has none.

    What the script excludes anywhere is excluded here. Trouble with a phone is read with what its owner said of itself.
    """
    own = (fact.say for fact in script.facts if want.check is not None)
    act = read_act(" . ".join((_text(want), *own)))
    sought: dict[str, str] = lexicon()["sought"]  # type: ignore[assignment]
    verbs = act.verbs - set(_list("follows")) or act.verbs
    verbs = verbs or frozenset(verb for name in act.objects for verb in sought.get(name, "").split())
    every = (read_act(text) for text in (*map(_text, script.wants), *(fact.say for fact in script.facts)))
    if verbs == {"enable"} and not act.verbs and _ENDS_IT.search(want.say.lower()):
        verbs = frozenset({"disable"})
    elsewhere = frozenset(name for one in every for name in one.denied if isinstance(name, str))
    implied = {"address"} if _SENT_TO.search(_text(want).lower()) else set[str]()
    if act.of("means") and verbs & {"charge", "pay"}:
        implied.add("payment")
    if implied:  # the address and the payment of an order are changed
        verbs |= {"change"}
    denied = (act.denied | elsewhere) - verbs - act.objects - act.values
    return replace(act, verbs=verbs, objects=act.objects | implied, denied=denied)


@lru_cache(maxsize=1024)
def abroad(script: UserScript) -> bool:
    """Return whether a script says that its customer is abroad."""
    told = " ".join((*(fact.say for fact in script.facts), *map(_text, script.wants))).lower()
    return bool(_ABROAD.search(told.replace("not abroad", "")))
