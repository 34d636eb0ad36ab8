"""A phone's trouble is found one step at a time, by what its owner (or the agent's own tools) reports of it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_ABROAD = re.compile(
    r"\b(?:abroad|overseas|travell?ing|on holiday|on vacation|in another country|out of the country)\b"
)
_HOME = re.compile(r"\b(?:at home|not abroad|not travell?ing|in the country|not overseas|home)\b")


def abroad(text: str) -> bool | None:
    """Return whether a text tells that the customer is abroad; None where it tells nothing."""
    text = text.lower()
    if _HOME.search(text):
        return False
    return True if _ABROAD.search(text) else None


_READINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "airplane": (("off", r"airplane mode:? ?(?:is )?(?:now |currently |turned |switched )*off"),
                 ("on", r"airplane mode:? ?(?:is )?(?:now |currently |turned |switched )*on\b|shows: ?(?:the )?airplane mode")),
    "sim": (("locked", r"locked"), ("missing", r"sim card status: missing|no sim\b|sim (?:card )?(?:is )?missing"),
            ("active", r"sim card status: active|sim card is active|re-?seated|sim (?:card )?is (?:fine|active|working)")),
    "service": (("no", r"no signal|no[ _]service|connection: (?:no|searching|emergency)"),
                ("yes", r"connection: connected|signal:? (?:is )?(?:poor|fair|good|excellent)|is connected")),
    "data": (("off", r"mobile data (?:enabled: no|is (?:now )?off|is disabled)|data disabled"),
             ("on", r"mobile data (?:enabled: yes|is (?:now )?on|is enabled)|data enabled(?!:)")),
    "roaming": (("off", r"roaming (?:enabled: no|is (?:now )?(?:off|disabled))"),
                ("on", r"roaming (?:enabled: yes|is (?:now )?(?:on|enabled))")),
    "speed": (("none", r"no connection|speed test failed"), ("excellent", r"\(excellent\)|speed.{0,30}excellent"),
              ("slow", r"\((?:very poor|poor|fair|good)\)|\bslow\b")),
    "saver": (("off", r"data saver(?: mode)? is (?:now )?off"), ("on", r"data saver(?: mode)? is (?:now )?on|data saver\b")),
    "mode": (("best", r"4g_5g_preferred"), ("4g", r"4g_only"), ("3g", r"3g_only"), ("2g", r"2g_only")),
    "vpn": (("off", r"vpn is (?:turned )?off|vpn disconnected|no active vpn|not connected"),
            ("on", r"vpn is on|vpn connected")),
    "mmsc": (("missing", r"mmsc[^:]*:? ?(?:is )?not set"), ("set", r"mmsc[^:]*:? ?http")),
    "calls": (("off", r"wi-?fi calling is (?:currently |now |turned )*off"),
              ("on", r"wi-?fi calling is (?:currently |now |turned )*on")),
    "mms": (("no", r"(?:cannot|can't|can not) send"), ("yes", r"can send")),
    "sms right": (("granted", r"permission 'sms' granted|permissions? for:[^.]*\bsms\b"),
                  ("lacking", r"permissions? for:|no permissions")),
    "storage right": (("granted", r"permission 'storage' granted|permissions? for:[^.]*\bstorage\b"),
                      ("lacking", r"permissions? for:|no permissions")),
}  # fmt: skip
_SHOWN = {
    thing: tuple((value, re.compile(pattern)) for value, pattern in values) for thing, values in _READINGS.items()
}  # fmt: skip


def shown(text: str) -> dict[str, str]:
    """Return what a message, or the answer of a tool, tells of the phone: the last value of each thing that it speaks of."""
    text, found = text.lower(), dict[str, str]()
    for thing, values in _SHOWN.items():
        places = [(_last_place(pattern, text), value) for value, pattern in values]
        place, value = max(places, key=lambda one: one[0])
        if place >= 0:
            found[thing] = value
    return found


def _last_place(pattern: re.Pattern[str], text: str) -> int:
    return max((match.start() for match in pattern.finditer(text)), default=-1)


@dataclass(frozen=True)
class Step:
    """Something to be done with the phone: the words that ask for it, and the call that does it."""

    say: str
    tool: str
    arguments: Mapping[str, Any] | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The arguments of the call."""
        return dict(self.arguments or {})


def _grant(permission: str) -> Step:
    say = f"Please grant the messaging app the {permission} permission."
    return Step(say, "grant_app_permission", {"app_name": "messaging", "permission": permission})


NETWORK = Step("Please check the network status of your phone and tell me what it shows.", "check_network_status")
AIRPLANE = Step("Please turn airplane mode off.", "toggle_airplane_mode")
RESEAT = Step("Please take the SIM card out of your phone and put it back in.", "reseat_sim_card")
RESET = Step("Please reset the APN settings of your phone.", "reset_apn_settings")
RESTART = Step("Please restart your phone.", "reboot_device")
DATA = Step("Please turn mobile data on.", "toggle_data")
ROAMING = Step("Please turn data roaming on in the settings of your phone.", "toggle_roaming")
SPEED = Step("Please run a speed test and tell me the result.", "run_speed_test")
MMS = Step("Please try whether you can send a picture message (MMS) now.", "can_send_mms")
_BEST = {"mode": "4g_5g_preferred"}
_MODE = Step("Please set the preferred network mode to 4G/5G preferred.", "set_network_mode_preference", _BEST)
# What is looked at -> the look, the values that will do, and what mends the others.
_CHECKS: dict[str, tuple[Step, tuple[str, ...], tuple[Step, ...]]] = {
    "saver": (
        Step("Please check whether data saver is on.", "check_data_restriction_status"), ("off",),
        (Step("Please turn data saver mode off.", "toggle_data_saver_mode"),),
    ),
    "mode": (
        Step("Please check the network mode preference of your phone.", "check_network_mode_preference"), ("best",), (_MODE,)
    ),
    "vpn": (
        Step("Please check whether a VPN is on.", "check_vpn_status"), ("off",),
        (Step("Please disconnect the VPN.", "disconnect_vpn"),),
    ),
    "mmsc": (
        Step("Please check the APN settings of your phone and tell me the MMSC address.", "check_apn_settings"), ("set",),
        (RESET, RESTART),
    ),
    "sms right": (
        Step("Please check which permissions the messaging app has.", "check_app_permissions", {"app_name": "messaging"}),
        ("granted",), (_grant("sms"),),
    ),
    "storage right": (
        Step("Please check which permissions the messaging app has.", "check_app_permissions", {"app_name": "messaging"}),
        ("granted",), (_grant("storage"),),
    ),
    "calls": (
        Step("Please check whether Wi-Fi calling is on.", "check_wifi_calling_status"), ("off",),
        (Step("Please turn Wi-Fi calling off.", "toggle_wifi_calling"),),
    ),
}  # fmt: skip
_GOALS = {
    "data": (SPEED, "speed", "excellent", ("saver", "mode", "vpn")),
    "pictures": (MMS, "mms", "yes", ("mode", "mmsc", "sms right", "storage right", "calls")),
}
_SERVICE_STEPS = (AIRPLANE, RESEAT, RESET, RESTART, _MODE)
_OTHER_STEPS = (DATA, ROAMING, *(step for _, _, mends in _CHECKS.values() for step in mends))
_STILL = re.compile(
    r"\bstill (?:does not|doesn't|not|no|isn't|is not|cannot|can't)\b|\bnot (?:solved|fixed)\b|same problem"
)
_MOST = 3  # times that a step is asked for


class Stuck(Exception):
    """Nothing that a customer can do from afar helps."""


class Phone:
    """What is known about a phone at a moment.

    Moments are places in `told`, the texts that may tell of it; `asked` tells at which of them the answer to a step stands.
    """

    def __init__(self, told: Sequence[str], asked: Mapping[str, Sequence[int]], since: int = 0) -> None:
        """Read what was told.

        Args:
            told: messages of the customer, or answers of tools.
            asked: for the tool of each step and its arguments, the places at which answers to it stand.
            since: the place before which nothing was told of the phone.
        """
        self._start = max([since, *(place for place, text in enumerate(told) if _STILL.search(text.lower()))])
        self._asked = {key: [place for place in places if place >= self._start] for key, places in asked.items()}
        self.known: dict[str, tuple[str, int]] = {}
        for place in range(self._start, len(told)):
            self.known |= {thing: (value, place) for thing, value in shown(told[place]).items()}

    def value(self, thing: str) -> str:
        """Return the last known value of a thing, "" if it is not known."""
        return self.known.get(thing, ("", 0))[0]

    def restarted(self) -> bool:
        """Tell whether a restart was asked for."""
        return self._last((RESTART,)) >= 0

    def service(self) -> Step | None:
        """Return the next step towards service; None if there is service.

        Raises:
            Stuck: nothing more helps.
        """
        value, place = self.known.get("service", ("", -1))
        if not value or place < self._last(_SERVICE_STEPS):
            return self._again(NETWORK)
        if self.value("airplane") == "on":
            return self._again(AIRPLANE)
        if value == "yes":
            return None
        if self.value("sim") == "locked":
            raise Stuck
        if not self.value("sim"):
            return self._again(NETWORK)
        if self.value("sim") == "missing":
            return self._again(RESEAT)
        for step in (RESET, RESTART):
            if self._last((step,)) < 0 or (step is RESTART and self._last((RESTART,)) < self._last((RESET,))):
                return step
        raise Stuck

    def switches(self, abroad: bool) -> Step | None:
        """Return the next step towards mobile data, once there is service; None if its switches are as they should be."""
        if not self.value("data"):
            return self._again(NETWORK)
        if self.value("data") == "off":
            return self._again(DATA)
        return self._again(ROAMING) if abroad and self.value("roaming") != "on" else None

    def goal(self, kind: str) -> Step | None:
        """Return the next step towards fast data or picture messages; None if all is well.

        Raises:
            Stuck: nothing more helps.
        """
        test, thing, wanted, checks = _GOALS[kind]
        value, place = self.known.get(thing, ("", -1))
        fresh = place >= self._last((*_SERVICE_STEPS, *_OTHER_STEPS))
        if value == wanted and fresh:
            return None
        if not value:
            return self._again(test)
        step = next(self._mending(kind, checks), None)
        if step is not None:
            return self._again(step)
        if fresh:
            raise Stuck
        return self._again(test)

    def _mending(self, kind: str, checks: Sequence[str]) -> Iterator[Step]:
        for check in checks:
            look, fine, mends = _CHECKS[check]
            value = self.value(check)
            if not value:
                yield look
            elif value not in fine and not (kind == "pictures" and value in ("3g", "4g")):
                yield from self._undone(look, mends, self.known[check][1])

    def _undone(self, look: Step, mends: Sequence[Step], place: int) -> Iterator[Step]:
        """Yield what mends a thing and was not asked for since it was seen; then the look at whether it helped."""
        for step in mends:
            if self._last((step,)) <= place:
                yield step
        yield look

    def _again(self, step: Step) -> Step:
        if len(self._asked.get(key_of(step), ())) >= _MOST:
            raise Stuck
        return step

    def _last(self, steps: Sequence[Step]) -> int:
        return max((place for step in steps for place in self._asked.get(key_of(step), ())), default=-1)


def key_of(step: Step) -> str:
    """Return what tells a step from all others."""
    return " ".join([step.tool, *(str(value) for value in step.given.values())])


STEPS = tuple(
    {key_of(step): step for step in (
        NETWORK, AIRPLANE, RESEAT, RESET, RESTART, DATA, ROAMING, SPEED, MMS,
        *(step for look, _, mends in _CHECKS.values() for step in (look, *mends)),
    )}.values()
)  # fmt: skip
