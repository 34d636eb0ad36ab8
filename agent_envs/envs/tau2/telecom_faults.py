"""Telecom tasks alone call these functions of the user's side: they break and mend the phone, or assert how it is."""

from collections.abc import Callable
from functools import partial
from typing import Any

from agent_envs.envs.tau2.telecom_device import (
    connect_vpn,
    toggle_airplane_mode,
    toggle_data,
    toggle_data_saver_mode,
    toggle_roaming,
    toggle_wifi_calling,
)
from agent_envs.envs.tau2.telecom_device import user_kit as user_kit
from agent_envs.envs.tau2.telecom_phone import (
    edit_phone,
    edit_surroundings,
    mms_works,
    mobile_data_works,
    network_search,
    phone,
    speed,
    surroundings,
)
from agent_envs.envs.tau2.telecom_tables import PERMISSIONS, SERVICE_STATUSES
from agent_envs.envs.tau2.toolkit import World


def _settle(world: World, flip: Callable[[World], str], field: str, goal: bool) -> str:
    """Flip once, and once more if the field is not as the goal; return the last answer's first line."""
    text = flip(world)
    if phone(world)[field] != goal:
        text = flip(world)
    return text.partition("\n")[0]


@user_kit.helper
def set_user_info(world: World, name: str, phone_number: str) -> None:
    """Set the owner of the phone."""
    edit_surroundings(world).update(name=name, phone_number=phone_number)


@user_kit.helper
def set_user_location(world: World, abroad: bool) -> None:
    """Put the phone abroad or at home."""
    edit_surroundings(world)["is_abroad"] = abroad


# What a function turns -> the tool that flips it, and the member that shows it; each has a function for on and one for off.
_SWITCHES: dict[str, tuple[Callable[[World], str], str]] = {
    "turn_airplane_mode": (toggle_airplane_mode, "airplane_mode"),
    "turn_roaming": (toggle_roaming, "roaming_enabled"),
    "turn_data_saver_mode": (toggle_data_saver_mode, "data_saver_mode"),
}
for _name, (_flip, _field) in _SWITCHES.items():
    user_kit.helpers[f"{_name}_on"] = partial(_settle, flip=_flip, field=_field, goal=True)
    user_kit.helpers[f"{_name}_off"] = partial(_settle, flip=_flip, field=_field, goal=False)


@user_kit.helper
def turn_data_on(world: World) -> str:
    """Set mobile data on, with no network search."""
    edit_phone(world)["data_enabled"] = True
    return "Data connection restored."


@user_kit.helper
def turn_data_off(world: World) -> str:
    """Make sure that mobile data is off."""
    _settle(world, toggle_data, "data_enabled", False)
    return "Data connection broken."


@user_kit.helper
def unseat_sim_card(world: World) -> str:
    """Take the SIM card out."""
    edit_phone(world)["sim_card_missing"] = True
    network_search(world)
    return "SIM card un-seated successfully."


@user_kit.helper
def lock_sim_card(world: World, mode: str) -> str:
    """Lock the SIM card with its PIN or PUK code, and search for the network; ValueError for another mode."""
    if mode not in ("pin", "puk"):
        raise ValueError("mode must be pin or puk")
    edit_phone(world)["sim_card_status"] = f"locked_{mode}"
    network_search(world)
    return f"SIM card locked successfully in {mode} mode."


@user_kit.helper
def break_apn_settings(world: World) -> str:
    """Put a broken access point in place."""
    edit_phone(world)["active_apn_settings"]["apn_name"] = "broken"
    network_search(world)
    return "APN settings broken. Please call reset_apn_settings() to fix."


@user_kit.helper
def break_apn_mms_setting(world: World) -> str:
    """Take away the address for picture messages."""
    edit_phone(world)["active_apn_settings"]["mmsc_url"] = None
    return "APN MMS setting broken. Please call reset_apn_settings() to fix."


@user_kit.helper
def set_wifi_calling(world: World, enabled: bool, mms_over_wifi: bool | None = None) -> str:
    """Set calls over Wi-Fi and, unless None, picture messages over Wi-Fi; return sentences on what was set."""
    lines = [f"Wi-Fi Calling is now {'ON' if enabled else 'OFF'}."]
    if phone(world)["wifi_calling_enabled"] != enabled:
        toggle_wifi_calling(world)
    if mms_over_wifi is not None:
        edit_phone(world)["wifi_calling_mms_over_wifi"] = mms_over_wifi
        lines.append(f"MMS over Wi-Fi is now {'ON' if mms_over_wifi else 'OFF'}.")
    return "\n".join(lines)


@user_kit.helper
def break_vpn(world: World) -> str:
    """Connect to the VPN and make its server slow; with the switch `vpn_leak`, later connections are slow, too."""
    connect_vpn(world)
    edit_phone(world)["vpn_details"]["server_performance"] = "poor"
    if world.compat.vpn_leak:
        world.extras["vpn_broken"] = True
    return "VPN connection broken."


@user_kit.helper
def remove_app_permission(world: World, app_name: str, permission: str) -> tuple[bool, str]:
    """Take a permission from an app; return (True, a sentence), or (False, why) for an unknown app or permission."""
    permission = permission.lower()
    app = phone(world)["app_statuses"].get(app_name)
    if app is None:
        return False, f"App '{app_name}' not found. Cannot remove permission."
    if permission not in PERMISSIONS:
        return False, f"Permission '{permission}' not tracked for app '{app_name}'."
    edit_phone(world)["app_statuses"][app_name]["permissions"][permission] = False
    return True, f"Permission '{permission}' removed from app '{app_name}'."


@user_kit.helper
def simulate_network_search(world: World) -> None:
    """Connect the phone anew."""
    network_search(world)


# What only tasks call: assertions


def _is_as_expected(world: World, expected_status: bool, read: Callable[[World], Any]) -> bool:
    """Return whether what is read from the world equals the expected status."""
    return bool(read(world) == expected_status)


_DEVICE_VIEWS: dict[str, Callable[[World], Any]] = {
    "airplane_mode_status": lambda world: phone(world)["airplane_mode"],
    "mobile_data_status": mobile_data_works,
    "mobile_roaming_status": lambda world: phone(world)["roaming_enabled"],
    "mobile_data_saver_mode_status": lambda world: phone(world)["data_saver_mode"],
    "mobile_data_usage_exceeded": lambda world: surroundings(world)["mobile_data_usage_exceeded"],
    "can_send_mms": mms_works,
}
for _name, _read in _DEVICE_VIEWS.items():
    user_kit.helpers[f"assert_{_name}"] = partial(_is_as_expected, read=_read)


@user_kit.helper
def assert_service_status(world: World, expected_status: str) -> bool:
    """Return whether the connection is as expected; a status that does not exist is an error."""
    if expected_status not in SERVICE_STATUSES:
        raise ValueError(f"{expected_status!r} is not a valid NetworkStatus")
    return bool(phone(world)["network_connection_status"] == expected_status)


@user_kit.helper
def assert_internet_speed(world: World, expected_speed: float, expected_desc: str | None = None) -> bool:
    """Return whether mobile data is at least this fast (none is 0) and, if one is given, has this label, in any case."""
    value, label = speed(world)
    if expected_desc is not None and label.lower() != expected_desc.lower():
        return False
    return (value or 0) >= expected_speed


@user_kit.helper
def assert_internet_not_excellent(world: World) -> bool:
    """Return whether mobile data is slower than excellent."""
    return speed(world)[1] != "Excellent"
