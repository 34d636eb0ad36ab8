"""`aim_of` reads what a want is about doing, as its customer means it: with the verbs that its objects call for."""

import re
from dataclasses import replace
from functools import lru_cache

from agent_envs.envs.tau2.user_script import UserScript, Want
from agent_envs.envs.tau2.users.acts import Act, lexicon, read_act
from agent_envs.envs.tau2.users.mind import ids_of

_ABROAD = re.compile(r"\b(?:abroad|travell?ing|roaming|france|overseas)\b")
_ENDS_IT = re.compile(r"n't\b|\b(?:not|no|cannot|never|nobody|nothing|stop|shut|end|without)\b")
_SENT_TO = re.compile(r"\b(?:sent|shipped|delivered) to\b|\b(?:send|ship|deliver) (?:it|them|that|this) to\b")


def words_of(name: str) -> list[str]:
    """Return a list of the lexicon."""
    return lexicon()[name]  # type: ignore[no-any-return]


def text_of(want: Want) -> str:
    """Return all that a customer has to say of a want, and the signs by which it knows that it was fulfilled."""
    told = (want.say, *(fact.say for fact in want.facts), " ".join(want.signs))
    return " . ".join(told)


def of_items(want: Want) -> bool:
    """Return whether a want is about items of an order, by what there is to tell of it."""
    return any(fact.topic in ("items", "options") for fact in want.facts)


@lru_cache(maxsize=1024)
def spoken(script: UserScript) -> Act:
    """Return what a customer says of itself."""
    return read_act(" . ".join(fact.say for fact in script.facts))


@lru_cache(maxsize=1024)
def aim_of(script: UserScript, want: Want) -> Act:
    """Return what a want is about doing, as a customer means it: with the verbs that its objects call for, where it has none.

    What the script excludes anywhere is excluded here. Trouble with a phone is read with what its owner said of itself.
    """
    own = (fact.say for fact in script.facts if want.check is not None)
    meant = (want.say, *(fact.say for fact in want.facts if fact.topic != "reason"))
    act = read_act(" . ".join((*meant, *own)), proposing=True)
    sign = read_act(" ".join(want.signs))
    act = replace(
        act, verbs=act.verbs | sign.verbs, objects=act.objects | sign.objects, values=act.values | sign.values
    )
    verbs = act.verbs - set(words_of("follows")) or act.verbs
    verbs = verbs or frozenset(verb for name in act.objects for verb in lexicon()["sought"].get(name, "").split())
    every = (read_act(text) for text in (*map(text_of, script.wants), *(fact.say for fact in script.facts)))
    if verbs == {"enable"} and not act.verbs and _ENDS_IT.search(want.say.lower()):
        verbs = frozenset({"disable"})
    elsewhere = frozenset(name for one in every for name in one.denied if isinstance(name, str))
    implied = {"address"} if _SENT_TO.search(text_of(want).lower()) else set[str]()
    if "address" in act.objects - implied and not (ids_of(want) or "order" in want.say):
        implied.add("profile")  # "I have moved: please change my address"
    if act.of("means") and verbs & {"charge", "pay"}:
        implied.add("payment")
    if of_items(want):  # then gigabytes are those of a tablet, and bags are of tea
        act = replace(act, objects=act.objects - {"bags", "data"})
    if implied:  # the address and the payment of an order are changed
        verbs |= {"change"}
    denied = (act.denied | elsewhere) - verbs - act.objects - act.values
    return replace(act, verbs=verbs, objects=act.objects | implied, denied=denied)


@lru_cache(maxsize=1024)
def abroad(script: UserScript) -> bool:
    """Return whether a script says that its customer is abroad."""
    told = " ".join((*(fact.say for fact in script.facts), *map(text_of, script.wants))).lower()
    return bool(_ABROAD.search(told.replace("not abroad", "")))
