"""The telecom user's tools read and change everything that a customer can reach on the phone."""

from typing import Any, TypedDict

from agent_envs.envs.tau2.record_schema import shaped
from agent_envs.envs.tau2.telecom_phone import (
    edit_phone,
    edit_surroundings,
    mms_works,
    network_search,
    phone,
    sim_status,
    speed,
    status_bar,
    surroundings,
)
from agent_envs.envs.tau2.telecom_tables import APN, MODES, PERMISSIONS
from agent_envs.envs.tau2.toolkit import Kit, World

# Arguments of several tools, as their schemas describe them.
_TERMS = {"app_name": "Name of the app, as the list of apps shows it."}
user_kit = Kit("user", _TERMS)

_ADVICE = {
    "Very Poor": "Connection is very slow. Basic web browsing might be difficult.",
    "Poor": "Connection is slow. Web browsing may be sluggish, streaming difficult.",
    "Fair": "Connection is okay for web browsing and some standard definition streaming.",
    "Good": "Connection is good for most activities, including HD streaming.",
    "Excellent": "Connection is very fast.",
}
_SIM_TEXT = {
    "active": "Your SIM card is active and working.",
    "missing": "No SIM card detected in the phone.",
    "locked_pin": "The SIM card is locked with a PIN code.",
    "locked_puk": "The SIM card is locked with a PUK code.",
}
VPN = {"server_address": "192.168.1.1", "protocol": "OpenVPN", "server_performance": "excellent"}


class ApnSettings(TypedDict, total=False):
    """The access point of the mobile network; a member left out takes its default."""

    apn_name: str
    reset_at_reboot: bool
    mms_apn: str
    mmsc_url: str
    mms_proxy: str
    mms_port: int


def _with_bar(world: World, text: str) -> str:
    """Return a text with the phone's status bar below it."""
    return f"{text}\nStatus Bar: {status_bar(world)}"


def _on(value: object) -> str:
    """Return ON for a true value, else OFF."""
    return "ON" if value else "OFF"


def _yes(value: object) -> str:
    """Return Yes for a true value, else No."""
    return "Yes" if value else "No"


def _flip(world: World, field: str, label: str, search: bool) -> str:
    """Switch a field of the phone, with a new search for the network if `search`; return its state and the status bar."""
    device = edit_phone(world)
    device[field] = not device[field]
    if search:
        network_search(world)
    return _with_bar(world, f"{label} is now {_on(device[field])}.")


def _drop_wifi(device: dict[str, Any]) -> None:
    """Set the phone's Wi-Fi to not connected."""
    device.update(wifi_connected=False, wifi_ssid=None, wifi_signal_strength="none")


# The user's tools: reading


@user_kit.tool()
def check_status_bar(world: World) -> str:
    """Read the status bar: signal, network, mobile data, Wi-Fi, VPN and battery."""
    return f"Status Bar: {status_bar(world)}"


@user_kit.tool()
def check_network_status(world: World) -> str:
    """Read the details of the connection: airplane mode, SIM card, cellular network, mobile data, roaming and Wi-Fi."""
    device = phone(world)
    lines = [
        f"Airplane Mode: {_on(device['airplane_mode'])}",
        f"SIM Card Status: {sim_status(world)}",
        f"Cellular Connection: {device['network_connection_status']}",
        f"Cellular Signal: {device['network_signal_strength']}",
        f"Cellular Network Type: {device['network_technology_connected']}",
        f"Mobile Data Enabled: {_yes(device['data_enabled'])}",
        f"Data Roaming Enabled: {_yes(device['roaming_enabled'])}",
        f"Wi-Fi Radio: {_on(device['wifi_enabled'])}",
        f"Wi-Fi Connected: {_yes(device['wifi_connected'])}",
    ]
    if device["wifi_connected"]:
        lines.append(f"Connected Wi-Fi Network: {device['wifi_ssid']}")
    return "\n".join(lines)


@user_kit.tool()
def check_network_mode_preference(world: World) -> str:
    """Read which kind of mobile network the phone prefers."""
    return f"Network Mode Preference: {phone(world)['network_mode_preference']}"


@user_kit.tool()
def run_speed_test(world: World) -> str:
    """Measure the speed of mobile data."""
    value, label = speed(world)
    if value is None:
        return f"Speed test failed: {label}."
    return f"Speed Test Result: {value:.2f} Mbps ({label}). {_ADVICE[label]}"


@user_kit.tool()
def check_sim_status(world: World) -> str:
    """Read whether the SIM card works, is locked or is missing."""
    return _SIM_TEXT[sim_status(world)]


@user_kit.tool()
def check_data_restriction_status(world: World) -> str:
    """Read whether data saver mode limits the use of data."""
    saving = phone(world)["data_saver_mode"]
    return f"Data Saver mode is {'ON (limits data usage)' if saving else 'OFF'}."


@user_kit.tool()
def check_apn_settings(world: World) -> str:
    """Read the access point name and the address for picture messages."""
    settings = phone(world)["active_apn_settings"]
    return (
        f"Current APN Name: {settings['apn_name']}\n"
        f"MMSC URL (for picture messages): {settings['mmsc_url'] or 'Not Set'}\n"
        "(These are technical settings, usually best left unchanged.)"
    )


@user_kit.tool()
def check_wifi_status(world: World) -> str:
    """Read whether Wi-Fi is on and to which network it is connected."""
    device = phone(world)
    if not device["wifi_enabled"]:
        return "Wi-Fi is turned OFF."
    if not device["wifi_connected"]:
        return "Wi-Fi is ON but not connected to any network."
    return f"Wi-Fi is ON and connected to '{device['wifi_ssid']}'. Signal strength: {device['wifi_signal_strength']}."


@user_kit.tool()
def check_wifi_calling_status(world: World) -> str:
    """Read whether calls go over Wi-Fi."""
    return f"Wi-Fi Calling is currently turned {_on(phone(world)['wifi_calling_enabled'])}."


@user_kit.tool()
def check_vpn_status(world: World) -> str:
    """Read whether a VPN is connected, and its details."""
    device = phone(world)
    details = device["vpn_details"]
    if device["vpn_connected"] and not details:
        return "VPN is ON and connected (no specific details available)."
    if device["vpn_connected"]:
        level = details["server_performance"]
        items = f"'server_address': {details['server_address']!r}, 'protocol': {details['protocol']!r}"
        return (
            f"VPN is ON and connected. Details: {{{items}, "
            f"'server_performance': <PerformanceLevel.{level.upper()}: {level!r}>}}"
        )
    if device["vpn_enabled_setting"]:
        return "VPN is turned ON in settings, but currently not connected."
    return "VPN is turned OFF."


@user_kit.tool()
def check_installed_apps(world: World) -> str:
    """List the apps on the phone."""
    return f"The following apps are installed on the phone: {', '.join(phone(world)['app_statuses'])}"


@user_kit.tool()
def check_app_status(world: World, app_name: str) -> str:
    """Read the state of one app."""
    app = phone(world)["app_statuses"].get(app_name)
    if app is None:
        return f"App '{app_name}' not found on this phone."
    lines = [f"   - {name}" for name in _granted_permissions(app)] or ["   - None"]
    return "\n".join([f"Status for App: {app_name}", " - Permissions Granted:", *lines])


@user_kit.tool()
def check_app_permissions(world: World, app_name: str) -> str:
    """Read what one app is allowed to use."""
    app = phone(world)["app_statuses"].get(app_name)
    if app is None:
        return f"App '{app_name}' not found on this phone."
    granted = _granted_permissions(app)
    if not granted:
        return f"App '{app_name}' currently has no permissions granted."
    return f"App '{app_name}' has permission for: {', '.join(granted)}."


def _granted_permissions(app: Any) -> list[str]:
    """Return the permissions that an app has, in the fixed order."""
    return [name for name in PERMISSIONS if app["permissions"][name]]


@user_kit.tool()
def can_send_mms(world: World) -> str:
    """Try whether the messaging app can send picture messages."""
    return f"Your messaging app {'can' if mms_works(world) else 'cannot'} send MMS messages."


@user_kit.tool()
def check_payment_request(world: World) -> str:
    """Read whether the company asks for a payment."""
    request = surroundings(world)["payment_request"]
    if request is None:
        return "No payment request has been made."
    return f"You have a payment request for bill {request['bill_id']} of {request['amount_due']} USD."


# The user's tools: writing


@user_kit.tool("write")
def toggle_airplane_mode(world: World) -> str:
    """Turn airplane mode on or off. On, it cuts every radio."""
    device = edit_phone(world)
    device["airplane_mode"] = not device["airplane_mode"]
    if device["airplane_mode"]:
        _drop_wifi(device)
        if device["vpn_connected"]:
            _drop_vpn(device)
    elif device["wifi_enabled"]:
        _drop_wifi(device)
    network_search(world)
    return _with_bar(world, f"Airplane Mode is now {_on(device['airplane_mode'])}.")


@user_kit.tool("write")
def set_network_mode_preference(world: World, mode: str) -> str:
    """Choose which kind of mobile network the phone prefers.

    Args:
        mode: One of 4g_5g_preferred, 4g_only, 3g_only, 2g_only.
    """
    if mode not in MODES:
        options = ", ".join(MODES)
        return _with_bar(
            world, f"Failed to set network mode: '{mode}' is not a valid option. Please use one of: {options}"
        )
    edit_phone(world)["network_mode_preference"] = mode
    network_search(world)
    return _with_bar(world, f"Preferred Network Mode set to: {mode}")


@user_kit.tool("write")
def reseat_sim_card(world: World) -> str:
    """Take the SIM card out and put it back in."""
    edit_phone(world)["sim_card_missing"] = False
    network_search(world)
    return _with_bar(world, "SIM card re-seated successfully.")


@user_kit.tool("write")
def toggle_data(world: World) -> str:
    """Turn mobile data on or off."""
    return _flip(world, "data_enabled", "Mobile Data", search=True)


@user_kit.tool("write")
def toggle_roaming(world: World) -> str:
    """Turn data roaming on or off."""
    return _flip(world, "roaming_enabled", "Data Roaming", search=True)


@user_kit.tool("write")
def toggle_data_saver_mode(world: World) -> str:
    """Turn data saver mode on or off. On, it slows data down."""
    return _flip(world, "data_saver_mode", "Data Saver Mode", search=False)


@user_kit.tool("write")
def set_apn_settings(world: World, apn_settings: ApnSettings) -> str:
    """Replace the access point settings.

    Args:
        apn_settings: The new settings; a member left out takes its default.
    """
    settings = shaped(apn_settings, APN, "apn_settings")
    edit_phone(world)["active_apn_settings"] = settings
    network_search(world)
    return _with_bar(world, f"APN settings set to: {settings['apn_name']}")


@user_kit.tool("write")
def reset_apn_settings(world: World) -> str:
    """Ask for the default access point settings, which take effect at the next reboot."""
    edit_phone(world)["active_apn_settings"]["reset_at_reboot"] = True
    network_search(world)
    return _with_bar(world, "APN settings will reset at reboot.")


@user_kit.tool("write")
def toggle_wifi(world: World) -> str:
    """Turn Wi-Fi on or off."""
    device = edit_phone(world)
    if device["airplane_mode"]:
        return _with_bar(world, "Cannot change Wi-Fi settings while Airplane Mode is ON.")
    device["wifi_enabled"] = not device["wifi_enabled"]
    if not device["wifi_enabled"]:
        _drop_wifi(device)
    return _with_bar(world, f"Wi-Fi is now {_on(device['wifi_enabled'])}.")


@user_kit.tool("write")
def toggle_wifi_calling(world: World) -> str:
    """Turn calls over Wi-Fi on or off."""
    return _flip(world, "wifi_calling_enabled", "Wi-Fi Calling", search=False)


@user_kit.tool("write")
def connect_vpn(world: World) -> str:
    """Connect to the VPN."""
    if not _connect(world):
        return "VPN already connected."
    return _with_bar(world, "VPN connected successfully.")


def _connect(world: World) -> bool:
    """Connect the VPN and return True; False where it was connected. Poor if one was broken before, else excellent."""
    device = edit_phone(world)
    if device["vpn_connected"]:
        return False
    device["vpn_connected"] = True
    device["vpn_details"] = {**VPN, "server_performance": "poor" if world.extras.get("vpn_broken") else "excellent"}
    return True


@user_kit.tool("write")
def disconnect_vpn(world: World) -> str:
    """Disconnect from the VPN."""
    device = edit_phone(world)
    if not device["vpn_connected"]:
        return _with_bar(world, "No active VPN connection to disconnect.")
    _drop_vpn(device)
    return _with_bar(world, "VPN disconnected successfully.")


def _drop_vpn(device: dict[str, Any]) -> None:
    """Set the phone's VPN to not connected."""
    device.update(vpn_connected=False, vpn_details=None)


@user_kit.tool("write")
def grant_app_permission(world: World, app_name: str, permission: str) -> str:
    """Allow an app to use something.

    Args:
        app_name: Name of the app.
        permission: One of sms, storage, phone, network.
    """
    permission = permission.lower()  # the app's name is looked up as given, as in the original
    app = edit_phone(world)["app_statuses"].get(app_name)
    if app is None:
        text = f"Error. App '{app_name}' not found. Cannot grant permission."
    elif permission not in PERMISSIONS:
        text = f"Error. Permission '{permission}' not tracked for app '{app_name}', "
        text += f"available permissions: {list(PERMISSIONS)}"
    else:
        app["permissions"][permission] = True
        text = f"Success. Permission '{permission}' granted to app '{app_name}'."
    return _with_bar(world, text)


@user_kit.tool("write")
def reboot_device(world: World) -> str:
    """Restart the phone."""
    device = edit_phone(world)
    lines = ["Restarting network services..."]
    if device["active_apn_settings"]["reset_at_reboot"]:
        device["active_apn_settings"] = shaped({}, APN)
        lines.insert(0, "Resetting APN settings...")
    network_search(world)
    return _with_bar(world, "\n".join(lines))


@user_kit.tool("write")
def make_payment(world: World) -> str:
    """Pay the bill that the company asks for."""
    request = surroundings(world)["payment_request"]
    if request is None:
        return "You do not have a payment request."
    edit_surroundings(world)["payment_request"]["paid"] = True
    return f"Payment of {request['amount_due']} USD has been made for bill {request['bill_id']}."
