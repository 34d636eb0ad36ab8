"""Dates are written as texts have them and as answers may; `strftime` would use the machine's language."""

import re
from datetime import date

MONTHS = tuple("January February March April May June July August September October November December".split())
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

DAY = re.compile(rf"(\d{{1,2}}) ({'|'.join(MONTHS)}) (\d{{4}})")


def written_date(day: date) -> str:
    """Return a date as generated texts write it: "5 May 2021"."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def date_forms(day: date) -> tuple[str, ...]:
    """Return nine accepted forms of a date, the texts' own first: "5 May 2021", with weekday, ISO, and with th, st, nd, rd."""
    month, weekday = MONTHS[day.month - 1], WEEKDAYS[day.weekday()]
    last = "th" if day.day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    forms = [f"{day.day} {month} {day.year}", f"{month} {day.day}, {day.year}"]
    forms += [f"{weekday}, {form}" for form in forms]
    forms += [day.isoformat(), f"{day.day}{last} {month} {day.year}", f"{month} {day.day}{last}, {day.year}"]
    return tuple(forms)


def days_in(text: str) -> list[date]:
    """Return the days that a text names in the form "5 May 2021", in their order; impossible ones are left out."""
    days = []
    for day, month, year in DAY.findall(text):
        try:
            days.append(date(int(year), MONTHS.index(month) + 1, int(day)))
        except ValueError:  # 31 February
            continue
    return days
