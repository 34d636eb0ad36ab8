"""The telecom user's phone has rules here for what it connects to, how fast it is, and what it shows.

The phone and its surroundings are the two records of the user's database. Nothing is derived but by a network search: a
tool that runs none leaves the shown connection as it was, which is why a line that the agent resumes needs a reboot.
"""

from typing import Any

from agent_envs.envs.tau2.toolkit import World

_MBPS = {"none": (0.0, 0.0), "2G": (0.1, 0.4), "3G": (1.0, 5.0), "4G": (10.0, 100.0), "5G": (50.0, 500.0)}
_SIGNAL_SHARE = {"none": 0.0, "poor": 0.2, "fair": 0.5, "good": 0.8, "excellent": 1.0}
_SIGNAL_TEXT = {
    "none": "📵 No Signal", "poor": "📶¹ Poor", "fair": "📶² Fair", "good": "📶³ Good", "excellent": "📶⁴ Excellent"
}  # fmt: skip
_LABELS = ((1, "Very Poor"), (5, "Poor"), (25, "Fair"), (100, "Good"))


def phone(world: World) -> Any:
    """Return the phone's record, to read."""
    return world.phone.get("device", "")


def surroundings(world: World) -> Any:
    """Return the phone's surroundings (place, line, signals), to read."""
    return world.phone.get("surroundings", "")


def edit_phone(world: World) -> dict[str, Any]:
    """Return the phone's record, to write."""
    return world.phone.edit("device", "")


def edit_surroundings(world: World) -> dict[str, Any]:
    """Return the surroundings, to write."""
    return world.phone.edit("surroundings", "")


# The rules of the phone


def sim_status(world: World) -> str:
    """Return the status of the SIM card as the phone sees it: a card that is out counts as missing."""
    device = phone(world)
    return "missing" if device["sim_card_missing"] else str(device["sim_card_status"])


def network_search(world: World) -> None:
    """Connect the phone anew, in place: no service unless SIM card, airplane mode, access point and line allow it."""
    device, around = edit_phone(world), surroundings(world)
    technology, signal = "none", "none"
    status = "no_service"
    reachable = not device["airplane_mode"] and around["line_active"]
    if reachable and sim_status(world) == "active" and device["active_apn_settings"]["apn_name"] != "broken":
        status, technology = "connected", _technology(device["network_mode_preference"], around["signal_strength"])
        signal = around["signal_strength"].get(technology, "none")
    device["network_connection_status"] = status
    device["network_technology_connected"] = technology
    device["network_signal_strength"] = signal


def _technology(mode: str, signals: Any) -> str:
    """Return the network of a mode, "2G" to "4G"; of 4g_5g_preferred 5G if there is a signal of it, else 4G."""
    if mode == "4g_5g_preferred":
        return "5G" if signals.get("5G", "none") != "none" else "4G"
    return mode[:2].upper()


def mobile_data_works(world: World) -> bool:
    """Return whether mobile data gets through: signal, service, roaming where abroad, the switch and the data limit."""
    device, around = phone(world), surroundings(world)
    if device["airplane_mode"] or device["network_signal_strength"] == "none":
        return False
    if device["network_connection_status"] == "no_service":
        return False
    if around["is_abroad"] and not (device["roaming_enabled"] and around["roaming_allowed"]):
        return False
    return bool(device["data_enabled"]) and not around["mobile_data_usage_exceeded"]


def speed(world: World) -> tuple[float | None, str]:
    """Return the speed in megabits a second and its label; (None, "No Connection") where data does not get through."""
    if not mobile_data_works(world):
        return None, "No Connection"
    device = phone(world)
    details = device["vpn_details"]
    factor = 0.1 if device["vpn_connected"] and details and details["server_performance"] == "poor" else 1.0
    if device["data_saver_mode"]:
        factor *= 0.2
    low, high = _MBPS[device["network_technology_connected"]]
    value = round((low + high) / 2 * _SIGNAL_SHARE[device["network_signal_strength"]] * factor, 2)
    return value, next((label for bound, label in _LABELS if value < bound), "Excellent")


def mms_works(world: World) -> bool:
    """Return whether the messaging app can send a picture message: data above 2G, no Wi-Fi path, address, permissions."""
    device = phone(world)
    if not mobile_data_works(world) or device["network_technology_connected"] == "2G":
        return False
    if device["wifi_calling_enabled"] and device["wifi_calling_mms_over_wifi"]:
        return False
    app = device["app_statuses"].get("messaging")
    if device["active_apn_settings"]["mmsc_url"] is None or app is None:
        return False
    return bool(app["permissions"]["storage"] and app["permissions"]["sms"])


def status_bar(world: World) -> str:
    """Return the line at the top of the phone's screen: airplane mode or the network, Wi-Fi, VPN, battery."""
    device = phone(world)
    items = ["✈️ Airplane Mode"] if device["airplane_mode"] else _cellular_items(device)
    if device["wifi_enabled"] and device["wifi_connected"]:
        items.append(f"📡 Connected to {device['wifi_ssid']}" if device["wifi_ssid"] else "📡 Enabled")
    if device["vpn_connected"]:
        items.append("🔒 VPN Connected")
    return " | ".join([*items, f"🔋 {device['battery_level']}%"])


def _cellular_items(device: Any) -> list[str]:
    """Return the status bar's items for signal, network and mobile data, and data saver where data is on."""
    items = [_SIGNAL_TEXT[device["network_signal_strength"]]]
    technology = device["network_technology_connected"]
    if technology != "none":
        items.append(technology)
    if not device["data_enabled"] or technology == "none":
        return [*items, "📵 Data Disabled"]
    return [*items, "📱 Data Enabled", *(["🔽 Data Saver"] if device["data_saver_mode"] else [])]
