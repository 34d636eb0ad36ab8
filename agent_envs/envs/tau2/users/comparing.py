"""`differs` and its kin compare the values of a proposal with those that a customer has in mind, whatever the words are."""

import re
from dataclasses import dataclass

from agent_envs.envs.tau2.user_script import UserScript, Want
from agent_envs.envs.tau2.users.acts import Act, births, granted, lexicon, read_act
from agent_envs.envs.tau2.users.agent_words import words
from agent_envs.envs.tau2.users.aims import aim_of, of_items, spoken, text_of
from agent_envs.envs.tau2.users.mind import ids_known, ids_of
from agent_envs.envs.tau2.users.shelf import NOTHING, Shelf, measures

_LIMIT, _OPEN, _RELATIVE, _STATES, _WHOLE, _ONLY, _EVERYTHING, _SWAPPED_FOR, _ALL, _ALONE, _FURTHER, _GOES = (
    words(name, "act_words.txt")
    for name in "limit open_amount relative_day as_it_is whole only everything swapped_for all_mine alone further goes".split()
)
_WORD = re.compile(r"[a-z]{2,}")
_FLIGHT = re.compile(r"\bhat\d{3}\b")
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
    if own and (strange or elsewhere) or ids and "profile" in aim.objects and "order" not in want.say:
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
    return " . ".join(part for part in told.split(" . ") if not _STATES.search(part))


def _other_goods(script: UserScript, want: Want, text: str, proposal: Proposal) -> bool:
    """Return whether a proposal about a shop's items has other items than the want, not all of them, or other options."""
    shelf, own = proposal.shelf, _goods(script, want, proposal.shelf)
    if not own or aim_of(script, want).excepted:
        return False
    whole = granted(_whole(text, proposal))
    said = shelf.named(whole, own)
    if shelf.named(granted(text), own) - own or (said and not said & own):
        return True
    parts = [shelf.named(part, own) for part in whole.split(" . ") if _ONLY.search(part)]
    if said and own - said and not _WHOLE.search(whole) or any(part and own - part for part in parts):
        return True
    goal = granted(text_of(want))
    known = {*_WORD.findall(goal), *str(lexicon()["plain"]).split()}
    for found in _SWAPPED_FOR.finditer(whole):
        head = found[1].split()[-1]
        if head not in known and not shelf.options(head, own):
            return True  # "... for a toaster"
    if _FURTHER.search(whole) or not said and _EVERYTHING.search(whole) and not _EVERYTHING.search(goal):
        return True
    return _unlike(shelf.options(goal, own) | measures(goal), shelf.options(whole, own) | measures(whole))


def _other_place(script: UserScript, want: Want, text: str, proposal: Proposal) -> bool:
    """Return whether a proposal has another number in a street than the address that a want is about ("32 Chapel Hill")."""
    placed = "address" in aim_of(script, want).objects
    return placed and _unlike(measures(granted(text_of(want))), measures(granted(_whole(text, proposal))))


def _other_day(script: UserScript, want: Want, text: str, proposal: Proposal) -> bool:
    """Return whether a flight is offered on the day that a want is to be moved from."""
    aim, whole = aim_of(script, want), _whole(text, proposal)
    said, left = read_act(whole).of("date"), {value for field, value in aim.left if field == "date"}
    return bool(_FLIGHT.search(whole) and said and said <= left and aim.of("date") - left)


def _part(script: UserScript, want: Want, text: str, proposal: Proposal) -> bool:
    """Return whether a part is offered of all that a want is about ("on that line only")."""
    return bool(_ALL.search(want.say) and _ALONE.search(_whole(text, proposal)))


def _unlike(meant: frozenset[tuple[str, str]], said: frozenset[tuple[str, str]]) -> bool:
    """Return whether pairs of a field and its value have a field that others have, too, but with no value in common."""
    both = {field for field, _ in meant} & {field for field, _ in said}
    return any(not {pair for pair in meant if pair[0] == field} & said for field in both)


def _other_cabin(script: UserScript, want: Want, text: str, proposal: Proposal) -> bool:
    """Return whether a proposal has another cabin than the one that a traveller has booked and wants to keep."""
    kept = {proposal.shelf.cabins[one] for one in ids_of(want) if one in proposal.shelf.cabins}
    said = read_act(_whole(text, proposal)).of("cabin")
    if "upgrade" not in aim_of(script, want).denied or aim_of(script, want).of("cabin"):
        return False
    return not said & kept if kept and said else "business" in said


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
    """Return whether a message is about other items, another cabin, or another traveller than a want."""
    return any(
        other(script, want, text, proposal)
        for other in (_other_goods, _other_place, _other_day, _other_cabin, _other_person, _part)
    )
