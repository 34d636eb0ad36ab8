"""`differs` and its kin compare the values of a proposal with those that a customer has in mind, whatever the words are."""

import re
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Literal

from agent_envs.envs.tau2.user_script import UserScript, Want
from agent_envs.envs.tau2.users.acts import Act, births, granted, lexicon, plainly, read_act
from agent_envs.envs.tau2.users.agent_words import words
from agent_envs.envs.tau2.users.aims import aim_of, of_items, spoken, text_of
from agent_envs.envs.tau2.users.mind import ids_known, ids_of
from agent_envs.envs.tau2.users.shelf import NOTHING, Shelf, digits, measures, normal

_of = partial(words, file="act_words.txt")
_LIMIT, _OPEN, _RELATIVE, _STATES, _TO_BE_HAD, _WHOLE, _WHOLE_ORDER, _PART, _GOES, _ALL = map(
    _of, "limit open_amount relative_day as_it_is to_be_had whole whole_order part goes all_mine".split()
)
_RECURS, _ALL_PAID, _UNEXPLAINED, _PROPOSES, _THING, _ALTERING, _CALCULATED, _FROM, _ASIDE, _PURPOSE = map(
    _of, "recurs all_paid unexplained proposes thing altering calculated from aside purpose".split()
)
Surplus = Literal["", "no", "doubt"]
_REASONS = _of("mistake"), _of("needless")
_MEANS = frozenset({"means", "card", "brand"})
_COMPARED = _MEANS | {"bag", "in all", "passenger", "date", "city", "cabin", "street", "zip", "unit", "gb"}
_NUMBER = re.compile(r"(?<![\w.,:/#$-])\d+(?:\.\d+)?(?![\w:/%-]|[.,]\d)")
_TOKEN = re.compile(r"[a-z][a-z']+|\d+(?:\.\d+)?")
_IN_PLACE = re.compile(r"([\w' -]+?) in place of ([\w' -]+?)\.")


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


def differs(script: UserScript, want: Want, act: Act, ids: frozenset[str], loosely: bool = False) -> bool:
    """Return whether an act has a value other than the one that a customer has in mind."""
    aim, own, known = aim_of(script, want), ids_of(want), ids & ids_known(script)
    strange = bool(ids) and not (known if loosely else known == ids)
    elsewhere = not ids & own and (known and not loosely or ids & frozenset().union(*map(ids_of, script.wants)))
    lines = [{fact.value for fact in facts if fact.topic == "line"} for facts in (script.facts, want.facts)]
    if all(lines) and lines[0] != lines[1] and ids & {fact.value for fact in script.facts if fact.topic == "phone"}:
        return True  # that is the number of the phone, and not of its owner's tablet
    both = len(ids & own) > 1 and "one of two" in want.say
    if own and (strange or elsewhere or both) or (ids and "profile" in aim.objects and "order" not in want.say):
        return True
    if "book" in aim.verbs and {"insurance", "bags"} & (act.denied & aim.objects | act.objects & aim.denied):
        return True
    fields = {field for field, _ in act.values} - {"money"}
    if ("money", "0") in act.denied:  # where nothing is to be paid, the means make no difference
        fields -= {"means", "card"}
    if _RELATIVE.search(want.say.lower()):
        fields -= {"date"}
    fields &= {"means", "card", "brand", "street", "unit", "zip"} if of_items(want) else fields
    fields -= {"gb"} if _OPEN.search(want.say) else set()
    return _dearer(want, act) or any(_other(script, aim, act, field) for field in fields)


def _other(script: UserScript, aim: Act, act: Act, field: str) -> bool:
    """Return whether an act has another value of a field than a want, which has one."""
    if field == "city" or field == "date" and "book" in aim.verbs:
        return bool(act.of(field) - aim.of(field) and aim.of(field) - act.of(field))
    said, meant = _target(act, field), _target(aim, field)
    if field == "unit" and not meant:
        return bool(aim.of("street"))
    if field == "date" and {(field, value) for value in said} <= act.left & aim.left:
        return False  # "I can move you there from May 21"
    if field == "bag":
        said, meant = said | act.of("in all"), meant | aim.of("in all")
    meant = meant or _target(spoken(script), field)
    if not act.left and not said <= meant:
        said -= aim.of(field) - meant  # "your flight on May 23" is the one that is moved from May 23
    if field == "date":
        said, meant = _days(said, meant), _days(meant, said)
    if field == "means" and "original" in meant:
        return ("means", "original") in act.denied | act.left
    return bool(said and meant and not said & meant)


def _target(act: Act, field: str) -> frozenset[str]:
    """Return the values of a field without those that are left for others."""
    kept = act.of(field) - {value for name, value in act.left if name == field}
    return kept if field == "bag" else kept or act.of(field)


def _days(dates: frozenset[str], others: frozenset[str]) -> frozenset[str]:
    """Return dates as days alone, where some of them, or of others, have no month ("the 24th")."""
    bare = all("-" in date for date in dates | others)
    return dates if bare else frozenset(date.split("-")[-1] for date in dates)


def _dearer(want: Want, act: Act) -> bool:
    """Return whether a proposal costs more than the customer's limit; what comes back is no cost."""
    limits = [float(found["sign"] or found["word"]) for found in _LIMIT.finditer(text_of(want).lower())]
    asked = [float(money) for money in act.of("money")]
    return bool(limits and asked and min(asked) > max(limits)) and not act.verbs & {"return", "cancel", "refund"}


def shares_values(script: UserScript, want: Want, text: str) -> bool:
    """Return whether a text has a value that only this want can be about: a date, a street, a count."""
    told = {pair for pair in read_act(text).values if pair[0] not in ("money", "means", "card", "brand", "city")}
    return bool(told and told & aim_of(script, want).values)


def _goods(script: UserScript, want: Want, shelf: Shelf) -> frozenset[str]:
    """Return the products that a want is about, if it is about items."""
    meant = of_items(want) or aim_of(script, want).verbs & {"return", "exchange"}
    return shelf.named(text_of(want)) if meant else frozenset()


def backed(script: UserScript, want: Want, text: str, proposal: Proposal) -> bool:
    """Return whether a message names, anywhere, what only this want is about: its items, or one of its values."""
    whole = _whole(text, proposal)
    known = names_goods(script, want, whole, proposal) or shares_values(script, want, whole)
    return known or _travellers(want)[0] in proposal.names


def names_goods(script: UserScript, want: Want, text: str, proposal: Proposal) -> bool:
    """Return whether a text names one of a want's products, or one of their options."""
    own, shelf = _goods(script, want, proposal.shelf), proposal.shelf
    return bool(own) and bool(own & shelf.named(granted(text), own) or shelf.options(granted(text), own))


def _whole(text: str, proposal: Proposal) -> str:
    return f"{standing(proposal.told)} . {text}"


def standing(told: str) -> str:
    """Return what a message tells, but for how things are now."""
    return " . ".join(part for part in told.split(" . ") if not _STATES.search(part) or _TO_BE_HAD.search(part))


def _other_goods(script: UserScript, want: Want, text: str, proposal: Proposal) -> bool:
    """Return whether a proposal about a shop's items has other items than the want, not all of them, or other options."""
    shelf, own = proposal.shelf, _goods(script, want, proposal.shelf)
    if not own or aim_of(script, want).excepted:
        return False
    whole = granted(_whole(text, proposal))
    said = shelf.named(whole, own)
    if shelf.named(granted(text), own) - own or (said and not said & own):
        return True
    if own & shelf.named(" ".join(read_act(_whole(text, proposal)).excepted), own):
        return True  # "all but the kettle"
    if _WHOLE_ORDER.search(granted(text)) and not _WHOLE_ORDER.search(text_of(want).lower()):
        return True
    part = own & shelf.named(" . ".join(found[0] for found in _PART.finditer(granted(text))), own)
    if part and own - part or said and own - said and not _WHOLE.search(whole):
        return True
    wanted, offered = _chosen(text_of(want), own, shelf), _chosen(_whole(text, proposal), own, shelf)
    both = {field for field, _ in wanted} & {field for field, _ in offered}
    return any(not {pair for pair in wanted if pair[0] == field} & offered for field in both)


def _chosen(text: str, own: frozenset[str], shelf: Shelf) -> frozenset[tuple[str, str]]:
    """Return the options and measures that a text grants; "without stand" is one, though it denies something."""
    said = granted(text)
    without = {pair for pair in shelf.options(_FROM.sub(" ", plainly(text)), own) if pair[1].startswith("without")}
    return shelf.options(said, own) | measures(said) | without


def _other_person(script: UserScript, want: Want, text: str, proposal: Proposal) -> bool:
    """Return whether a proposal puts another traveller than the want has in another's place, or one born on another day."""
    new, old = _travellers(want)
    if not new:
        return False
    whole, names = granted(_whole(text, proposal)), proposal.names
    if new not in names:
        alike = any(set(name.split()) & set(new.split()) and name != old for name in names)
        return alike or "remove" in read_act(text).verbs
    if any(_GOES.search(whole.replace(name, "~")) for name in names - {new, old}):
        return True
    born = {fact.value for fact in want.facts if fact.topic == "date_of_birth" and fact.value}
    said = births(whole)
    return bool(born and said - {fact.value for fact in script.facts} and not born & said)


def _travellers(want: Want) -> tuple[str, str]:
    """Return who is to travel and in whose place, in small letters."""
    told = (_IN_PLACE.match(fact.say.lower()) for fact in want.facts if fact.topic == "passengers")
    return next(((one[1], one[2]) for one in told if one), ("", ""))


def is_other(script: UserScript, want: Want, text: str, proposal: Proposal) -> bool:
    """Return whether a message is about other items or another traveller than a want."""
    part = read_act(" . ".join(found[0] for found in _PART.finditer(granted(text)))).of("date")
    rest = frozenset[str]() if "move" in aim_of(script, want).verbs else aim_of(script, want).of("date") - part
    other = _other_goods(script, want, text, proposal) or _other_person(script, want, text, proposal)
    return other or bool(part and rest)  # "just the flight of May 23"


def surplus(script: UserScript, wants: tuple[Want, ...], asked: str, proposal: Proposal) -> Surplus:
    """Return "no" where what an agent would do goes beyond wants, "doubt" where it has a word that nothing is known of."""
    own, values, fields = _account(script, wants, proposal.shelf)
    ids = frozenset[str]().union(*map(ids_of, wants))
    own |= {"too", "as well"} if proposal.ids and proposal.ids <= ids else set()  # "Then I'd cancel #W1, too"
    message = f"{standing(proposal.told)} . {asked}"
    told, said = read_act(message), " . ".join(map(text_of, wants)).lower()
    stays = {"cabin"} if any("upgrade" in aim_of(script, want).denied for want in wants) else frozenset[str]()
    parts = [_ASIDE.sub(" ", _PURPOSE.sub(" ", part)) for part in message.split(" . ")]
    clauses = [part[found.end() :] for part in parts if (found := _PROPOSES.search(part))]
    if (
        any(field in fields & (stays | {"card"}) for field, _ in told.values - told.left - values)
        or ids and proposal.ids - ids - ids_known(script)
        or ids and any(one in clause for clause in clauses for one in proposal.ids - ids)
        or any(one.search(said) for one in _REASONS) and any(one.search(message) and not one.search(said) for one in _REASONS)
        or _RECURS.search(message)
        or len({pair for pair in values if pair[0] == "means"}) > 1 and any(map(_ALL_PAID.search, clauses))
        or any(_beyond(own, values, fields, clause) for clause in clauses)
    ):  # fmt: skip
        return "no"
    if any(aim_of(script, want).excepted for want in wants):
        own |= _keys(" ".join(proposal.shelf.named(message)))
    trade, stems = _trade()
    # "I can cancel it. Shall I kick it off?": what awaits the yes names nothing more.
    heads = clauses if len(clauses) < 2 or " also " in asked else clauses[:-1]
    things = [found[found.lastindex or 0] for clause in heads for found in _THING.finditer(_plain(clause))]
    back = any(aim_of(script, want).verbs & {"cancel", "return"} for want in wants)
    if back and any(map(_UNEXPLAINED.search, clauses)):
        return "doubt"
    unknown = [thing for thing in things if not (own | trade).issuperset(map(_key, thing.split("-")))]
    return "" if all(one.startswith(stems) for one in unknown) else "no" if " also " in asked else "doubt"


@lru_cache(maxsize=1024)
def _account(
    script: UserScript, wants: tuple[Want, ...], shelf: Shelf
) -> tuple[frozenset[str], frozenset[tuple[str, str]], frozenset[str]]:
    """Return what wants account for: words with numbers, values, and the fields in which others differ."""
    aims, texts = [aim_of(script, want) for want in wants], " . ".join(map(text_of, wants))
    values = spoken(script).values.union(*(aim.values for aim in aims))
    described = (shelf.told_of(_goods(script, want, shelf)) for want in wants)
    own = _keys(" . ".join((texts, *(fact.say for fact in script.facts), *described)))
    objects = frozenset[str]().union(*(aim.objects for aim in aims))
    implied = "default " * ("profile" in objects) + "voucher " * ("certificate" in objects)
    implied += "every each another all " if any(_ALL.search(want.say) for want in wants) else "only "
    implied += "extra additional another further " * ("more" in own)
    if not any(aim.of("cabin") for aim in aims):  # then the one that is booked stays
        trips = zip(map(ids_of, wants), aims, strict=True)
        values |= {("cabin", cabin) for ids, aim in trips for cabin in shelf.booked(ids, script.facts, aim)}
    fields = _COMPARED & {field for field, _ in values - spoken(script).values}
    fields -= _MEANS if ("means", "original") in values else {"means"} if "payment" in objects else set()
    fields -= {"gb"} if any(_OPEN.search(want.say) for want in wants) else set()
    total = {("bag", value) for field, value in values if field == "in all"}
    days = {("date", value.split("-")[-1]) for field, value in values if field == "date"}
    return own | _keys(implied), values | total | days, fields - (set() if total else {"bag"})


def _beyond(own: frozenset[str], values: frozenset[tuple[str, str]], fields: frozenset[str], clause: str) -> bool:
    """Return whether something that is proposed has a value, a modifier or a number that no want has."""
    act = read_act(clause)
    fields -= _MEANS if ("money", "0") in act.denied else set()
    return (
        any(field in fields for field, _ in act.values - act.left - values)
        or any(_key(found[0]) not in own for found in _ALTERING.finditer(granted(clause)))
        or not own.issuperset(_NUMBER.findall(normal(_plain(clause))))
    )


def _plain(clause: str) -> str:
    """Return a clause without amounts, days and the like, and without what is to be changed from."""
    return _CALCULATED.sub(" ", _FROM.sub(" ", digits(plainly(clause))))


@lru_cache(maxsize=1024)
def _keys(text: str) -> frozenset[str]:
    return frozenset(map(_key, (*_TOKEN.findall(f"{text.lower()} {normal(text)}"), "0", "1")))


def _key(word: str) -> str:
    """Return a word without its ending."""
    word = word.removesuffix("'s").strip("'")
    ending = next((one for one in ("ings", "ing", "ed", "es", "ly", "s", "e") if word.endswith(one)), "")
    return word.removesuffix(ending) if len(word) - len(ending) >= 4 else word


@cache
def _trade() -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the words of the trade, of cities, and what else says nothing of a thing; and how those of acts begin."""
    told = lexicon()
    stems = " ".join((*told["verbs"].values(), *told["objects"].values())).replace("~", " ").replace(".", "")
    cities = " ".join((*told["cities"], *told["cities"].values()))
    plain = _keys(f"{told['plain']} {told['generic']} {told['looks']} {stems} {cities}")
    return plain, tuple(stem for stem in stems.split() if len(stem) > 3)
