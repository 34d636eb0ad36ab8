"""`decided` holds what an agent proposes against what a customer wants: each by what it would change, never by its wording.

A proposal and a want are read alike (`read_act`). A proposal is wanted where the act is one that the want may be brought about
by, on an object that the want speaks of, and no value in it (id, date, cabin, count, means of payment, ...) differs from those
that the customer has in mind. What names nothing, here or in the agent's words before it, is ambiguous.
"""

import re
from dataclasses import dataclass, replace
from typing import Literal

from agent_envs.envs.tau2.user_script import UserScript, Want
from agent_envs.envs.tau2.users.acts import Act, alike, points, read_act
from agent_envs.envs.tau2.users.agent_words import words
from agent_envs.envs.tau2.users.aims import abroad, aim_of, of_items, spoken, words_of
from agent_envs.envs.tau2.users.comparing import Proposal, backed, differs, is_other, names_goods, standing, surplus
from agent_envs.envs.tau2.users.mind import ids_known, ids_of

Verdict = Literal["yes", "no", "ask", "doubt"]
_UNNAMED = re.compile(r"\b(?:some|any)thing\b")
_NEGATED = re.compile(r"n't\b|\b(?:not|no)\b")
_ENDS = frozenset({"resume", "enable", "pay", "charge", "add"})  # of trouble with a phone, on the agent's side
_UNDOES = frozenset({"cancel", "return", "refund", "suspend", "resume", "close", "pay", "disable"})
_EXTRAS = frozenset(
    {"insurance", "extra", "warranty", "plan", "inbound", "profile", "store credit", "phone", "elsewhere"}
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a customer answers to a proposal, and the places of the wants that a yes is about."""

    verdict: Verdict
    places: tuple[int, ...] = ()


def decided(script: UserScript, places: tuple[int, ...], proposal: Proposal) -> Decision:
    """Return what a customer answers to a proposal that may mean the wants at some places, the likeliest first."""
    plain = tuple(asked for asked in proposal.asked if not read_act(asked).bare)
    answers = [_answer(script, places, asked, proposal) for asked in plain or proposal.asked]
    verdicts = {one.verdict for one in answers}
    for verdict in ("no", "doubt", "ask"):  # one thing that is not wanted is enough
        if verdict in verdicts and (verdict != "ask" or "yes" not in verdicts):
            return Decision(verdict)
    return Decision("yes", tuple(dict.fromkeys(place for one in answers for place in one.places)))


def _answer(script: UserScript, places: tuple[int, ...], asked: str, proposal: Proposal) -> Decision:
    act = read_act(asked, proposal.proposing)
    named = _specific(act) or act.valued
    if points(asked):
        return Decision("ask")
    aims = [aim_of(script, script.wants[place]) for place in places]
    known = frozenset(verb for aim in aims for verb in aim.verbs)
    named = named or any(act.objects & aim.objects for aim in aims)
    named = named or any(names_goods(script, script.wants[place], asked, proposal) for place in places)
    trouble = any(script.wants[place].check is not None for place in places)
    plain = set(words_of("broad")) | (set(words_of("follows")) - {"resume", *["pay"] * trouble})
    switch = {"exchange"} if "change" in act.verbs else set()  # "Do you want to switch?"
    if named or act.verbs & known - set(words_of("broad")) - switch or act.verbs - plain - switch:
        return _held(script, places, act, asked, proposal)
    return _pointed(script, places, act, asked, proposal)


def _pointed(script: UserScript, places: tuple[int, ...], act: Act, asked: str, proposal: Proposal) -> Decision:
    """Return the answer to a sentence that points at what was said before it ("Shall I go ahead?")."""
    for text in (proposal.told, proposal.before):
        plain = _NEGATED.sub(" ", text) if act.verbs else text  # "You have no insurance yet. Shall I add it?"
        told = read_act(plain)
        bare = told.bare and not any(backed(script, script.wants[place], plain, proposal) for place in places)
        if bare and told.looks:
            return Decision("yes", places[:1])
        if bare:  # "It costs $100 more. Shall I proceed?" is about what was said before
            continue
        offers = _offers(text)
        if offers and all(points(offer) and _UNNAMED.search(offer) for offer in offers):
            return Decision("ask")
        act = read_act(" . ".join([*(offers or [plain]), asked]), proposal.proposing)
        known = [one for one in proposal.ids if one in text]
        if offers and set(known) <= ids_known(script) and not any(one in " ".join(offers) for one in known):
            offers += known  # "#W1 is pending. I can stop it."
        return _held(script, places, act, " . ".join([*(offers or [text]), asked]), proposal, loosely=not offers)
    if act.looks:
        return Decision("yes", places[:1])
    return Decision("no" if act.verbs - set(words_of("broad")) else "ask")


def _offers(text: str) -> list[str]:
    """Return the sentences in which an agent says what it would do."""
    return [part for part in text.split(" . ") if words("offers").search(part) and not read_act(part).bare]


def _held(
    script: UserScript, places: tuple[int, ...], act: Act, text: str, proposal: Proposal, loosely: bool = False
) -> Decision:
    """Return the answer to an act; `loosely` where the text tells more than what is proposed."""
    if act.looks and not act.verbs - {"keep"} and not _specific(act):
        return Decision("yes", places[:1])
    ids = frozenset(found for found in proposal.ids if found in text)
    context = "" if loosely else standing(proposal.told)

    unsaid = not (act.verbs - {"change", "exchange", "add"} or ids) and bool(act.objects or act.valued)

    def meant(want: Want) -> bool:
        served = _serves(script, want, act, ids, loosely, backed(script, want, text, proposal))
        if unsaid and want is not script.wants[places[0]] and not _shares(script, want, act, text, proposal):
            return False  # "Basic economy costs less. Do you want to switch?" means no other wish
        belied = bool(context) and _belied(script, want, act, context, proposal.ids)
        return served and not belied and not is_other(script, want, text, proposal)

    found = tuple(place for place in places if meant(script.wants[place]))
    beyond = surplus(script, tuple(script.wants[place] for place in found), text, proposal) if found else "no"
    if beyond:
        return Decision(beyond)
    return Decision("yes", tuple(place for place in found if ids & ids_of(script.wants[place])) or found[:1])


def _shares(script: UserScript, want: Want, act: Act, text: str, proposal: Proposal) -> bool:
    aim = aim_of(script, want)
    return bool(act.objects & aim.objects or act.values & aim.values) or backed(script, want, text, proposal)


def _belied(script: UserScript, want: Want, act: Act, context: str, ids: frozenset[str]) -> bool:
    """Return whether what a message tells beside its question has another value than the want ("... Shall I book that?")."""
    told, offered = read_act(context), read_act(" . ".join(_offers(context)))
    meant = offered.objects if act.verbs else told.objects  # "A plan is $15. Can I put your line on it?"
    if meant & _EXTRAS - aim_of(script, want).objects - spoken(script).objects:
        return True
    if _doing(act, aim_of(script, want)) & _UNDOES:  # then most of what is told is about what is undone
        told = replace(told, values=frozenset(one for one in told.values if one[0] in ("means", "card", "pick")))
    return differs(script, want, told, ids, loosely=True)


def _serves(script: UserScript, want: Want, act: Act, ids: frozenset[str], loosely: bool, named: bool) -> bool:
    aim = aim_of(script, want)
    if want.check is not None:
        phones = frozenset(one for one in ids if one.count("-") == 2)  # none of them may be another customer's
        return not (phones and ids_known(script) and not phones & ids_known(script)) and _mends(script, aim, act)
    verbs = _doing(act, aim)
    travellers = any(fact.topic == "passengers" for fact in want.facts)
    if named and not travellers:
        verbs -= {"add"}  # "I'd include both of them"
    if want.question and verbs:
        return False
    fit = {verb for verb in verbs if alike()[verb] & aim.verbs}
    if act.of("cabin") & aim.of("cabin"):  # then it is no matter whether that is up or down
        fit |= verbs & {"upgrade", "downgrade", "move"}
    fit |= verbs & {"add"} if act.of("bag") & aim.of("bag") else set()
    fit |= verbs & {"remove"} if travellers else set()  # who travels is changed by taking somebody off
    if act.values & aim.values:
        verbs -= {"charge", "pay"} - fit
    others = verbs - fit - set(words_of("follows")) - ({"change"} if fit else set())
    if aim.verbs and verbs and (others and not loosely or not fit and (others or not loosely)):
        return False
    shared = act.objects & aim.objects or act.values & aim.values
    if aim.objects and verbs and not (verbs & aim.verbs - set(words_of("broad")) or shared or named):
        return False  # an exchange is a change, but not of an address
    if not (fit or shared or ids or named):
        return False
    return _allowed(script, want, act, loosely) and not differs(script, want, act, ids, loosely)


def _allowed(script: UserScript, want: Want, act: Act, loosely: bool) -> bool:
    """Return whether an act has nothing beyond a want: what it excludes, or another object."""
    aim = aim_of(script, want)
    if (act.objects | act.verbs | {pair for pair in act.values if not aim.of(pair[0])}) & aim.denied:
        return False
    foreign = _specific(act) - aim.objects - spoken(script).objects
    foreign -= {"bags", "data"} if of_items(want) else set()
    if act.verbs & aim.verbs & _UNDOES:  # "I can cancel it under your insurance"
        foreign -= {"insurance"}
    if "address" in aim.objects and ("profile" not in aim.objects or "order" in want.say):
        foreign -= {"parcel"}
    if loosely:  # it tells of more than what is proposed
        foreign = frozenset() if act.verbs & aim.verbs & _UNDOES else foreign & _EXTRAS
    return not (foreign or aim.excepted & act.words)


def _mends(script: UserScript, aim: Act, act: Act) -> bool:
    """Return whether an act of the agent's may mend a phone: it opens what is closed, at no price that was not agreed to."""
    verbs = act.verbs - set(words_of("follows")) | act.verbs & _ENDS
    sold = act.objects & {"plan", "insurance", "warranty", "phone", "extra"}
    if not (verbs or act.objects) or not verbs <= _ENDS or sold or "roaming" in act.objects and not abroad(script):
        return False
    amount, agreed = act.of("gb"), aim.of("gb")
    if "add" in act.verbs and not (amount or "data" in act.objects):
        return False
    return not ("add" in act.verbs or amount) or bool(agreed and (not amount or amount & agreed))


def _doing(act: Act, aim: Act) -> frozenset[str]:
    """Return the verbs of an act without those that merely follow from what is wanted ("... and return $31")."""
    return act.verbs - (set(words_of("follows")) - aim.verbs) or act.verbs


def _specific(act: Act) -> frozenset[str]:
    return act.objects - set(words_of("asides"))
