"""An agent's words about a phone (`device_words.txt`) are named here, with the tools that they stand for."""

import re

from agent_envs.envs.tau2.users.agent_words import words

READING = {
    "airplane": "check_network_status", "data": "check_network_status", "roaming": "check_network_status",
    "saver": "check_data_restriction_status", "wifi_calling": "check_wifi_calling_status", "wifi": "check_wifi_status",
    "vpn": "check_vpn_status", "mode": "check_network_mode_preference", "network": "check_network_status",
    "speed": "run_speed_test", "sim": "check_sim_status", "apn": "check_apn_settings", "mms": "can_send_mms",
    "apps": "check_installed_apps", "payment": "check_payment_request", "bar": "check_status_bar",
}  # fmt: skip
TOGGLES = {
    "airplane": "toggle_airplane_mode", "data": "toggle_data", "roaming": "toggle_roaming",
    "saver": "toggle_data_saver_mode", "wifi_calling": "toggle_wifi_calling", "wifi": "toggle_wifi",
}  # fmt: skip
# Of each switch: what its reading tool shows where it is on, and where it is off.
SHOWN = {
    "airplane": ("Airplane Mode: ON", "Airplane Mode: OFF"), "wifi": ("Wi-Fi is ON", "Wi-Fi is turned OFF"),
    "data": ("Mobile Data Enabled: Yes", "Mobile Data Enabled: No"), "saver": ("mode is ON", "mode is OFF"),
    "roaming": ("Data Roaming Enabled: Yes", "Data Roaming Enabled: No"), "wifi_calling": ("turned ON", "turned OFF"),
    "vpn": ("ON and connected", ""),
}  # fmt: skip
ACTIONS = {"reboot": "reboot_device", "reseat": "reseat_sim_card", "reset": "reset_apn_settings", "pay": "make_payment"}


def _words(name: str) -> re.Pattern[str]:
    return words(name, "device_words.txt", re.IGNORECASE).compiled


def __getattr__(name: str) -> re.Pattern[str]:  # each section by its name in capitals, such as THINGS
    if not name.isupper():
        raise AttributeError(name)
    return _words(name.lower())


MODES = {"auto": "4g_5g_preferred", "five": "4g_5g_preferred", "four": "4g_only", "three": "3g_only", "two": "2g_only"}
VERBS = {verb: _words(f"verbs {verb}") for verb in ("reboot", "reseat", "reset", "pay")}
NAMED = {permission: _words(f"named {permission}") for permission in ("sms", "storage", "phone", "network")}
# The words that a request may have: it is carried out where it has no other.
VOCABULARY = frozenset(re.findall("[a-z]+", _words("vocabulary").pattern))
