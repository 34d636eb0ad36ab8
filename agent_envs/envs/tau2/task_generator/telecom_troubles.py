"""A customer's phone gets faults of service, mobile data and picture messages, alone and together."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from agent_envs.envs.tau2.task_generator.telecom_parts import (
    WORDS,
    Account,
    Part,
    Row,
    action,
    bought,
    fact,
    function,
    gigabytes,
    line_is,
    paid,
    payments,
    want,
)

_SERVICE = ("airplane", "sim", "apn")
_DATA = ("data", "roaming", "usage", "saver", "mode", "vpn")
_PICTURES = ("mmsc", "sms", "storage", "calls", "old_mode")
# Of picture messages, what mobile data lacks counts as well; how fast it is does not.
_POOLS = {
    "service": _SERVICE,
    "data": (*_DATA, *_SERVICE),
    "pictures": (*_PICTURES, *_PICTURES, "data", "roaming", "usage"),
}
_APART = ({"mode", "old_mode"},)
_CHECKS = {
    "service": {"tool": "check_network_status", "passes": "Cellular Connection: connected"},
    "data": {"tool": "run_speed_test", "passes": "Excellent"},
    "pictures": {"tool": "can_send_mms", "passes": "messaging app can send"},
}
_GOALS = {
    "service": (function("user", "assert_service_status", expected_status="connected"),),
    "data": (
        function("user", "assert_mobile_data_status", expected_status=True),
        function("user", "assert_internet_speed", expected_speed=200, expected_desc="excellent"),
    ),
    "pictures": (function("user", "assert_can_send_mms", expected_status=True),),
}


@dataclass(frozen=True)
class _Fault:
    """One thing that is broken: how it comes about, and what mends it; in the order of mending."""

    start: tuple[Row, ...]
    mends: tuple[Row, ...]
    restart: bool = False


def _user(name: str, /, **arguments: Any) -> Row:
    """Return a call of a tool of the user's, which sets the trouble up."""
    return function("user", name, **arguments)


def _mend(name: str, /, **arguments: Any) -> Row:
    """Return the user's call that mends a trouble, as an expected action whose arguments are not compared."""
    # How it was mended shows in the end; the arguments may be spelt in many ways.
    return action("user", name, (), **arguments)


# The order is that of mending: service, then data, then pictures. Functions of the generator are called with it.
_FAULTS: dict[str, _Fault] = {
    "airplane": _Fault((_user("turn_airplane_mode_on"),), (_mend("toggle_airplane_mode"),)),
    "sim": _Fault((_user("unseat_sim_card"),), (_mend("reseat_sim_card"),)),
    "apn": _Fault((_user("break_apn_settings"),), (_mend("reset_apn_settings"),), restart=True),
    "data": _Fault((_user("turn_data_off"),), (_mend("toggle_data"),)),
    "saver": _Fault((_user("turn_data_saver_mode_on"),), (_mend("toggle_data_saver_mode"),)),
    "vpn": _Fault((_user("break_vpn"),), (_mend("disconnect_vpn"),)),
    "mmsc": _Fault((_user("break_apn_mms_setting"),), (_mend("reset_apn_settings"),), restart=True),
    "calls": _Fault((_user("set_wifi_calling", enabled=True, mms_over_wifi=True),), (_mend("toggle_wifi_calling"),)),
} | {
    name: _Fault(
        (_user("remove_app_permission", app_name="messaging", permission=name),),
        (_mend("grant_app_permission", app_name="messaging", permission=name),),
    )
    for name in ("sms", "storage")
}
_BETTER = _mend("set_network_mode_preference", mode="4g_5g_preferred")


def _mode(rng: Random, account: Account) -> _Fault:
    """Draw the trouble of a slow network mode, which a better one mends."""
    return _Fault(
        (_user("set_network_mode_preference", mode=rng.choice(("3g_only", "2g_only", "4g_only"))),), (_BETTER,)
    )


def _old_mode(rng: Random, account: Account) -> _Fault:
    """Return the trouble of the oldest network mode, which a better one mends."""
    return _Fault((_user("set_network_mode_preference", mode="2g_only"),), (_BETTER,))


def _roaming(rng: Random, account: Account) -> _Fault:
    """Return the fault that roaming is off on the line, on the phone, or on both, by chance, with what mends it."""
    line, barred = account.own(account.lines[0]), rng.choice(("line", "phone", "both"))
    start = (
        function("assistant", "enable_roaming" if barred == "phone" else "disable_roaming", **line),
        _user("turn_roaming_on" if barred == "line" else "turn_roaming_off"),
    )
    mends = (action("assistant", "enable_roaming", **line), _mend("toggle_roaming"))
    return _Fault(start, {"line": mends[:1], "phone": mends[1:], "both": mends}[barred])


_RANDOM_FAULTS: dict[str, Callable[[Random, Account], _Fault]] = {
    "mode": _mode,
    "old_mode": _old_mode,
    "roaming": _roaming,
}
_ORDER = (
    "airplane", "sim", "apn", "data", "roaming", "usage", "saver", "mode", "vpn", "old_mode", "mmsc", "sms", "storage", "calls"
)  # fmt: skip


def trouble(rng: Random, account: Account, kind: str, count: int) -> Part:
    """Return a trouble ("service", "data", "pictures") with `count` faults; on an overdue account bills come on top."""
    names = _draw_faults(rng, kind, count)
    faults = [
        (name, _RANDOM_FAULTS[name](rng, account) if name in _RANDOM_FAULTS else _FAULTS[name])
        for name in names
        if name != "usage"
    ]
    part, restart = _complaint(rng, account, kind), account.kind == "overdue" or any(one.restart for _, one in faults)
    if account.kind == "overdue":
        part = _with_bills(part, account)
    early = [row for name, fault in faults if name in _SERVICE for row in fault.mends]
    late = [row for name, fault in faults if name not in _SERVICE for row in fault.mends]
    resets = [row for row in late if row["name"] == "reset_apn_settings" and row not in early]
    mends = early + resets + [_mend("reboot_device")] * restart
    mends += [row for row in late if row["name"] != "reset_apn_settings"]
    part = part.replace(actions=(*part.actions, *mends), start=tuple(row for _, fault in faults for row in fault.start))
    if "roaming" in names:
        part = _with_travel(rng, part)
    return _with_refuel(rng, part, account) if "usage" in names else part.replace(
        holds=(*part.holds, bought(account, account.lines[0], 0.0))
    )  # fmt: skip


def _draw_faults(rng: Random, kind: str, count: int) -> list[str]:
    """Draw up to `count` different kinds of faults that do not exclude each other, in the order of mending."""
    names: list[str] = []
    pool = list(_POOLS[kind])
    while pool and len(names) < count:
        name = pool.pop(rng.randrange(len(pool)))
        if name not in names and not any({name, other} in _APART for other in names):
            names.append(name)
    return sorted(names, key=_ORDER.index)


def _complaint(rng: Random, account: Account, kind: str) -> Part:
    """Return the part that tells of a phone's trouble, with the look by which the user sees that it is gone."""
    wish = rng.choice(WORDS[kind])
    device = account.device(account.lines[0])["model"]
    return Part(
        wishes=(wish,),
        wants=(want(wish, check=_CHECKS[kind], facts=[fact("problem", wish)]),),
        facts=(
            fact("device", f"it is a {device}", device),
            fact("line", f"it is the line of <my> phone, a {device}", device),
        ),
        rules=(
            WORDS["content"][kind],
            "If something does not help at once, <I> go on with what the agent proposes next",
        ),
        ticket=(WORDS["content"][kind],),
        holds=_GOALS[kind],
        topics=frozenset({"phone"}),
    )


def _with_bills(part: Part, account: Account) -> Part:
    """Return a trouble's part with a line suspended for unpaid bills added: they are paid, and it is resumed."""
    bills, line = account.unpaid, account.lines[0]
    resume = action("assistant", "resume_line", **account.own(line))
    return part.replace(
        rules=(*part.rules, "If an unpaid bill is the reason, <I> <am> willing to pay all that is overdue"),
        ticket=(*part.ticket, "<I> agree to pay every bill that is overdue"),
        actions=(*payments(account, bills), resume),
        holds=(*part.holds, *paid(bills), line_is(account, line, "Active")),
        topics=part.topics | {"bills"},
    )


def _with_travel(rng: Random, part: Part) -> Part:
    """Return a part of a task whose customer is abroad, with the fact that tells so."""
    place = rng.choice(WORDS["places"])
    text = f"<I> <am> abroad, in {place}"
    return part.replace(abroad=place, context=(*part.context, text), facts=(*part.facts, fact("location", text, place)))


def _with_refuel(rng: Random, part: Part, account: Account) -> Part:
    """Return a trouble's part with the plan's data used up as well, and an amount that the customer would buy."""
    line, amount = account.lines[0], rng.choice((0.5, 1.0, 1.5, 2.0))
    used = account.plan(line)["data_limit_gb"] + rng.choice((0.01, 0.13, 0.27, 0.41))
    words = f"if <my> data is used up, <I> want {gigabytes(amount)} more"
    refuel = action("assistant", "refuel_data", **account.own(line), gb_amount=amount)
    return part.replace(
        start=(*part.start, function("assistant", "set_data_usage", **account.own(line), data_used_gb=round(used, 2))),
        actions=(*part.actions, refuel),
        facts=(*part.facts, fact("amount", f"<I> want {gigabytes(amount)} more", f"{amount:g} GB")),
        context=(*part.context, words),
        ticket=(*part.ticket, "<I> agree to the plan's price for a gigabyte"),
        holds=(*part.holds, bought(account, line, amount)),
        topics=part.topics | {"data"},
    )


def hopeless(rng: Random, account: Account, kind: str) -> Part:
    """Return a trouble that only staff can solve: a contract that has ended, else a SIM card locked by PIN or PUK."""
    part, line = _complaint(rng, account, kind), account.lines[0]
    ended = account.kind == "ended"
    locked = () if ended else (_user("lock_sim_card", mode=rng.choice(("pin", "puk"))),)
    return part.replace(
        start=locked,
        rules=(*part.rules, "If the agent hands <me> over to a person, <I> accept that"),
        actions=(action("assistant", "transfer_to_human_agents", (), summary="The phone has no service."),),
        holds=(line_is(account, line, str(line["status"])), bought(account, line, 0.0)),
        ticket=(*part.ticket, "If that cannot be done from afar, <I> will talk to your staff"),
        compared=True,
        hopeless=True,
    )
