"""Dates are written as texts have them and as answers may; `strftime` would use the machine's language."""

from datetime import date

MONTHS = tuple("January February March April May June July August September October November December".split())
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def written_date(day: date) -> str:
    """Return a date as generated texts write it: "5 May 2021"."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def date_forms(day: date) -> tuple[str, ...]:
    """Return the accepted forms of a date, the texts' first; commas and points do not count in comparisons."""
    month, weekday = MONTHS[day.month - 1], WEEKDAYS[day.weekday()]
    last = "th" if day.day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    forms = [f"{day.day} {month} {day.year}", f"{month} {day.day}, {day.year}"]
    forms += [f"{weekday}, {form}" for form in forms]
    forms += [day.isoformat(), f"{day.day}{last} {month} {day.year}", f"{month} {day.day}{last}, {day.year}"]
    return tuple(forms)
