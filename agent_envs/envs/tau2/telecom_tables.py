"""The records of the telecom domain's two databases have their shapes here, and are read from data of TOML or JSON."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from agent_envs.envs.tau2.database import Database
from agent_envs.envs.tau2.record_schema import Closed, Default, Each, Maybe, Shape, shaped

LEVELS = ("none", "poor", "fair", "good", "excellent")
TECHNOLOGIES = ("none", "2G", "3G", "4G", "5G")
MODES = ("4g_5g_preferred", "4g_only", "3g_only", "2g_only")
SERVICE_STATUSES = ("connected", "searching", "no_service", "emergency_only")
PERMISSIONS = ("sms", "storage", "phone", "network")

ITEM: Shape = {"description": str, "amount": float, "date": str, "item_type": str}
BILL: Shape = {
    "bill_id": str,
    "customer_id": str,
    "period_start": str,
    "period_end": str,
    "issue_date": str,
    "total_due": float,
    "due_date": str,
    "line_items": Default([ITEM], ()),
    "status": Default(("Draft", "Issued", "Awaiting Payment", "Paid", "Overdue", "Disputed"), "Draft"),
}
_CUSTOMER: Shape = {
    "customer_id": str,
    "full_name": str,
    "date_of_birth": str,
    "email": str,
    "phone_number": str,
    "address": {"street": str, "city": str, "state": str, "zip_code": str},
    "account_status": str,
    "payment_methods": Default([{"method_type": str, "account_number_last_4": str, "expiration_date": str}], ()),
    "line_ids": Default([str], ()),
    "bill_ids": Default([str], ()),
    "created_at": Default(str, "2025-01-01 00:00:00"),
    "last_extension_date": Maybe(str),
    "goodwill_credit_used_this_year": Default(float, 0.0),
}
_LINE: Shape = {
    "line_id": str,
    "phone_number": str,
    "status": ("Active", "Suspended", "Pending Activation", "Closed"),
    "plan_id": str,
    "device_id": Maybe(str),
    "data_used_gb": Default(float, 0.0),
    "data_refueling_gb": Default(float, 0.0),
    "roaming_enabled": Default(bool, False),
    "contract_end_date": Maybe(str),
    "last_plan_change_date": Maybe(str),
    "last_sim_replacement_date": Maybe(str),
    "suspension_start_date": Maybe(str),
}
_PLAN: Shape = {
    "plan_id": str,
    "name": str,
    "data_limit_gb": float,
    "price_per_month": float,
    "data_refueling_price_per_gb": float,
}
_DEVICE: Shape = {
    "device_id": str,
    "device_type": str,
    "model": str,
    "imei": Maybe(str),
    "is_esim_capable": bool,
    "activated": Default(bool, False),
    "activation_date": Maybe(str),
    "last_esim_transfer_date": Maybe(str),
}
# Table -> the member that is its key, and the shape of its records.
_AGENT_TABLES: dict[str, tuple[str, Shape]] = {
    "plans": ("plan_id", _PLAN),
    "customers": ("customer_id", _CUSTOMER),
    "lines": ("line_id", _LINE),
    "bills": ("bill_id", BILL),
    "devices": ("device_id", _DEVICE),
}
DATETIMES = {"customers": ("created_at",), "devices": ("activation_date", "last_esim_transfer_date")}

APN = Closed({
    "apn_name": Default(("internet", "broken"), "internet"),
    "reset_at_reboot": Default(bool, False),
    "mms_apn": Default(Maybe(str), "mms"),
    "mmsc_url": Default(Maybe(str), "http://mms.carrier.com/mms/wapenc"),
    "mms_proxy": Maybe(str),
    "mms_port": Maybe(int),
})  # fmt: skip
_VPN: Shape = {
    "server_address": Maybe(str),
    "protocol": Maybe(str),
    "server_performance": Default(("unknown", "poor", "fair", "good", "excellent"), "unknown"),
}
_PERMISSIONS: Shape = {name: Default(bool, False) for name in PERMISSIONS}
_APP: Shape = {"app_name": str, "permissions": Default(_PERMISSIONS, shaped({}, _PERMISSIONS))}
_PHONE: Shape = {
    "sim_card_status": Default(("active", "missing", "locked_pin", "locked_puk"), "active"),
    "sim_card_missing": Default(bool, False),
    "airplane_mode": Default(bool, False),
    "network_signal_strength": Default(LEVELS, "good"),
    "network_technology_connected": Default(TECHNOLOGIES, "5G"),
    "network_connection_status": Default(SERVICE_STATUSES, "connected"),
    "battery_level": Default(int, 80),
    "data_enabled": Default(bool, True),
    "roaming_enabled": Default(bool, False),
    "network_mode_preference": Default(MODES, "4g_5g_preferred"),
    "active_apn_settings": Default(APN, shaped({}, APN)),
    "wifi_enabled": Default(bool, False),
    "wifi_connected": Default(bool, False),
    "wifi_ssid": Maybe(str),
    "wifi_signal_strength": Default(LEVELS, "none"),
    "wifi_calling_enabled": Default(bool, False),
    "wifi_calling_mms_over_wifi": Default(bool, False),
    "data_saver_mode": Default(bool, False),
    "vpn_enabled_setting": Default(bool, False),
    "vpn_connected": Default(bool, False),
    "vpn_details": Maybe(_VPN),
    "app_statuses": Default(Each(_APP), {}),
}
_SURROUNDINGS: Shape = {
    "name": Maybe(str),
    "phone_number": Maybe(str),
    "is_abroad": Default(bool, False),
    "roaming_allowed": Default(bool, False),
    "signal_strength": Default(Each(LEVELS), {"2G": "poor", "3G": "fair", "4G": "good", "5G": "excellent"}),
    "mobile_data_usage_exceeded": Default(bool, False),
    "line_active": Default(bool, True),
    "payment_request": Maybe({"bill_id": str, "amount_due": float, "paid": Default(bool, False)}),
}


def agent_records(data: Mapping[str, Any]) -> Database:
    """Return the company's database, all tables listed, of lists of records by table; SchemaError if one does not fit."""
    tables = {}
    for table, (key, shape) in _AGENT_TABLES.items():
        rows = [_write_dates(row, DATETIMES.get(table, ())) for row in data.get(table, [])]
        records = [shaped(row, shape, f"telecom {table}[{position}]") for position, row in enumerate(rows)]
        tables[table] = {record[key]: record for record in records}
    return Database("telecom", tables, listed=tables)


def user_records(data: Mapping[str, Any]) -> Database:
    """Return the user's phone and its surroundings. Raises SchemaError: a member does not fit."""
    shapes = {"device": _PHONE, "surroundings": _SURROUNDINGS}
    tables = {name: {"": shaped(data.get(name, {}), shape, f"telecom {name}")} for name, shape in shapes.items()}
    return Database("telecom user", tables, single=tables)


def _write_dates(value: Any, datetimes: tuple[str, ...] = ()) -> Any:
    """Return TOML data with dates as texts; `datetimes` members get a time, with a space before it, at this level alone."""
    if isinstance(value, Mapping):
        members = {name: _write_dates(item) for name, item in value.items()}
        return {
            name: str(datetime.fromisoformat(item)) if name in datetimes else item for name, item in members.items()
        }
    if isinstance(value, list):
        return [_write_dates(item) for item in value]
    return str(value) if isinstance(value, date) else value
