"""The generated shop's customers want orders sent elsewhere, or the address in their profile changed."""

from dataclasses import replace

from agent_envs.envs.tau2.task_generator.names import address, on_one_line
from agent_envs.envs.tau2.task_generator.retail_wants import (
    Calls,
    Case,
    Detail,
    Effect,
    Words,
    plain,
    said,
    seen,
    touched,
)
from agent_envs.envs.tau2.task_generator.retail_world import Record


def order_address(case: Case) -> tuple[Effect, ...]:
    """A pending order is to be sent elsewhere: to an address that is told, or to the one in the profile."""
    chosen = case.choose("pending")
    if chosen is None:
        return ()
    order, item = chosen
    home = case.user["address"]
    if case.vague and order["address"] != home and "home" not in case.used:
        return (
            sent_to(
                case, order, item, home, "{my} default address, the one in {my} profile", touched(order) | {"home"}
            ),
        )
    place = address(case.rng)
    return (sent_to(case, order, item, place, on_one_line(place), touched(order)),)


def sent_to(case: Case, order: Record, item: Record, place: Record, where: str, uses: frozenset[str]) -> Effect:
    """Return the want to have an order sent to a place that `where` names."""
    words, number = case.named(order, item)
    templates = (
        "{I} want {order} to be sent to another address: {where}.",
        "{I} need to change the shipping address of {order} to {where}.",
        "please have {order} shipped to {where} instead.",
        "the delivery address of {order} is wrong. It should be {where}.",
    )
    return Effect(
        said(case.rng.choice(templates), order=words, where=where),
        (number, Detail("address", said("the new address is {where}.", where=where))),
        (*seen(order), ("modify_pending_order_address", {"order_id": order["order_id"], **place})),
        uses, signs=("address",),
    )  # fmt: skip


def home_address(case: Case) -> tuple[Effect, ...]:
    """The address in the profile is to be changed, and sometimes that of a pending order with it."""
    if "home" in case.used:
        return ()
    place = address(case.rng)
    where = on_one_line(place)
    templates = (
        "{I} have moved and want {my} default address to be {where}.",
        "please change the address in {my} profile to {where}.",
        "{I} need to update {my} default address. It is {where} now.",
    )
    effect = Effect(
        said(case.rng.choice(templates), where=where),
        (Detail("address", said("the new address is {where}.", where=where)),),
        (("modify_user_address", {"user_id": case.user["user_id"], **place}),),
        frozenset(["home"]), signs=("address",),
    )  # fmt: skip
    if not case.vague:
        return (effect,)
    return (_moving(case, effect, place),)


def _moving(case: Case, effect: Effect, place: Record) -> Effect:
    """Return the want to change the address in the profile with that of one pending order, or of all, added."""
    chosen = case.choose("pending")
    pending = [order for order in case.all_orders if order["status"] == "pending"]
    free = all(order["order_id"] not in case.used for order in pending)
    if chosen is None:
        return effect
    orders = pending if free and len(pending) > 1 else [chosen[0]]
    more = said("{my} pending order with the {item} should go there, too.", item=plain(chosen[1]["name"]))
    if len(orders) > 1:
        more = said("all of {my} pending orders should go there, too.")
    sent: Calls = ()
    for order in orders:
        sent += (*seen(order), ("modify_pending_order_address", {"order_id": order["order_id"], **place}))
    uses = effect.uses.union(*(touched(order) for order in orders))
    say = Words(f"{effect.say.own} {more.own}", f"{effect.say.told} {more.told}")
    return replace(effect, say=say, actions=(*effect.actions, *sent), uses=uses)
