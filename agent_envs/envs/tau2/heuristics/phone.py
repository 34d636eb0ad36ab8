"""A phone's trouble is found one step at a time, by what its owner (or the agent's own tools) reports of it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Step(NamedTuple):
    """Something to be done with the phone: the words that ask for it, and the call that does it."""

    say: str
    tool: str
    arguments: Mapping[str, Any] = {}


class Cause(NamedTuple):
    """What may be amiss: what shows it, the words of a report about it (with a group if it is amiss), what mends it."""

    look: Step
    report: str
    mends: tuple[Step, ...] = ()


class Stuck(Exception):
    """Nothing that can be done from afar helps."""


_APP = {"app_name": "messaging"}
_NETWORK = Step("Please check the network status of your phone and tell me what it shows.", "check_network_status")
_SAVER = Step("Please check whether data saver is on.", "check_data_restriction_status")
_MODE = Step("Please check the network mode preference of your phone.", "check_network_mode_preference")
_VPN = Step("Please check whether a VPN is on.", "check_vpn_status")
_APN = Step("Please check the APN settings of your phone and tell me the MMSC address.", "check_apn_settings")
_RIGHTS = Step("Please check which permissions the messaging app has.", "check_app_permissions", _APP)
_CALLS = Step("Please check whether Wi-Fi calling is on.", "check_wifi_calling_status")
_SPEED = Step("Please run a speed test and tell me the result.", "run_speed_test")
_MMS = Step("Please try whether you can send a picture message (MMS) now.", "can_send_mms")
_PLANE_OFF = Step("Please turn airplane mode off.", "toggle_airplane_mode")
_RESEAT = Step("Please take the SIM card out of your phone and put it back in.", "reseat_sim_card")
_RESET = Step("Please reset the APN settings of your phone.", "reset_apn_settings")
RESTART = Step("Please restart your phone.", "reboot_device")
_DATA_ON = Step("Please turn mobile data on.", "toggle_data")
_ROAM = Step("Please turn data roaming on in the settings of your phone.", "toggle_roaming")
_SAVER_OFF = Step("Please turn data saver mode off.", "toggle_data_saver_mode")
_FAST = Step(
    "Please set the preferred network mode to 4G/5G preferred.",
    "set_network_mode_preference",
    {"mode": "4g_5g_preferred"},
)
_VPN_OFF = Step("Please disconnect the VPN.", "disconnect_vpn")
_CALLS_OFF = Step("Please turn Wi-Fi calling off.", "toggle_wifi_calling")
_GRANTS = [Step(f"Please grant the messaging app the {right} permission.", "grant_app_permission", _APP | {"permission": right})
           for right in ("sms", "storage")]  # fmt: skip
SERVICE = (
    Cause(_NETWORK, r"airplane mode:? (?:is )?(?:now )?(?:(on)\b|off)", (_PLANE_OFF,)),
    Cause(_NETWORK, r"(sim card status: missing|no sim\b)|sim card status: \w+|re-?seated", (_RESEAT,)),
    Cause(
        _NETWORK,
        r"(no[ _]s(?:ignal|ervice)|: searching)|: connected|signal:? (?:poor|fair|good|excellent)",
        (_RESET, RESTART),
    ),
)
DATA = Cause(
    _NETWORK, r"(mobile data enabled: no|mobile data is now off|data disabled)|mobile data (?:enabled|is)", (_DATA_ON,)
)
ROAMING = Cause(_NETWORK, r"roaming (?:enabled: |is (?:now )?)(?:(no|off)\b|yes|on)", (_ROAM,))
# Trouble -> the test that all is well, and what else may be amiss once there is service and mobile data is on.
TROUBLES: dict[str, tuple[Cause, tuple[Cause, ...]]] = {
    "data": (
        Cause(_SPEED, r"(\((?:very poor|poor|fair|good)\)|no connection|test failed)|\(excellent\)"),
        (
            Cause(_SAVER, r"data saver mode is (?:now )?(?:(on)\b|off)", (_SAVER_OFF,)),
            Cause(_MODE, r"([234]g_only)|4g_5g_preferred", (_FAST,)),
            Cause(_VPN, r"(vpn is on|vpn connected)|vpn is turned off|vpn disconnected|no active vpn", (_VPN_OFF,)),
        ),
    ),
    "pictures": (
        Cause(_MMS, r"(cannot send|can't send)|can send"),
        (
            Cause(_MODE, r"(2g_only)|4g_5g_preferred|[34]g_only", (_FAST,)),
            Cause(_APN, r"(mmsc[^:]*: ?not set)|mmsc[^:]*: ?http", (_RESET, RESTART)),
            *(Cause(_RIGHTS, rf"(messaging'(?![^.]*\b{right}\b)[^.]*permission)|permission for|'{right}' granted", (grant,))
              for right, grant in zip(("sms", "storage"), _GRANTS, strict=True)),
            Cause(_CALLS, r"wi-?fi calling is (?:currently |now |turned )*(?:(on)\b|off)", (_CALLS_OFF,)),
        ),
    ),
}  # fmt: skip
_ALL = (*SERVICE, DATA, ROAMING, *(cause for test, causes in TROUBLES.values() for cause in (test, *causes)))
_MENDS = [mend for cause in _ALL for mend in cause.mends]
STEPS = (*(cause.look for cause in _ALL), *_MENDS)
_MOST = 3  # times that a step is taken


class Phone:
    """What is known about a phone: the steps that were taken, in order, each with what was reported then."""

    def __init__(self, taken: Sequence[tuple[Step, str]]) -> None:
        """Keep the reports in lower case."""
        self.taken = [(step, report.lower()) for step, report in taken]

    def well(self, trouble: str) -> Step | None:
        """Return the next step towards fast data or picture messages; None if all is well."""
        test, causes = TROUBLES[trouble]
        amiss, seen = self._seen(test)
        fresh = seen > max(map(self.last, _MENDS))
        if amiss is False and fresh:
            return None
        step = self.mend(causes) if amiss is not None else None
        if step is None and fresh:
            raise Stuck
        return step or self._again(test.look)

    def mend(self, causes: Sequence[Cause]) -> Step | None:
        """Return the next step against the first of some causes that is there or not looked at; None if all are fine."""
        if any("locked" in report for _, report in self.taken):
            raise Stuck
        for cause in causes:
            amiss, seen = self._seen(cause)
            if amiss is not False:
                mends = [mend for mend in cause.mends if amiss and self.last(mend) < seen]
                return self._again(mends[0] if mends else cause.look)
        return None

    def _seen(self, cause: Cause) -> tuple[bool | None, int]:
        """Return whether something is amiss, None if that was not reported, and the place of the last report of it."""
        for place in range(len(self.taken) - 1, -1, -1):
            reports = list(re.finditer(cause.report, self.taken[place][1]))
            if reports:
                return reports[-1][1] is not None, place
        return None, -1

    def last(self, step: Step) -> int:
        """Return the place at which a step was taken last, -1 for nowhere."""
        return max((place for place, (taken, _) in enumerate(self.taken) if taken == step), default=-1)

    def _again(self, step: Step) -> Step:
        if sum(taken == step for taken, _ in self.taken) >= _MOST:
            raise Stuck
        return step
