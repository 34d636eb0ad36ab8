"""A clerk for generated law: reads the texts that a question rests on, in their order, and works its answer out."""

import re
from datetime import date, timedelta

from agent_envs.envs.legal_search.dates import MONTHS, WEEKDAYS, date_forms
from agent_envs.envs.legal_search.generated import GeneratedQuestion, GeneratedWorld

AMOUNT = re.compile(r"\$([\d,]+)|(\d+) (?:days?|hours?|months?|years?|percent(?:age points)?|units)\b")
DATE = re.compile(rf"(\d+) ({'|'.join(MONTHS)}) (\d{{4}})")


def amount(text: str) -> int:
    dollars, other = AMOUNT.search(text).groups()
    return int((dollars or other).replace(",", ""))


def day_in(text: str) -> date:
    day, month, year = DATE.search(text).groups()
    return date(int(year), MONTHS.index(month) + 1, int(day))


def fits(definition: str, question: str) -> bool:
    """Whether a size that the question tells fits a definition."""
    return any(
        ("fewer than" in definition and "at least" not in definition and n < numbers(definition)[0])
        or ("at least" in definition and numbers(definition)[0] <= n < numbers(definition)[1])
        or ("or more" in definition and n >= numbers(definition)[0])
        for n in numbers(DATE.sub("", question))
    )


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def rule_amount(texts: list[str], question: str) -> int:
    """Follow a rule through references, amendments, reliefs and definitions, in the order of their reading."""
    value, increase = 0, 0
    for text in texts:
        if "is substituted for" in text:
            new, old = re.findall(r'"(.*?)"', text)
            assert amount(old) == value
            value = amount(new) if day_in(question) >= day_in(text) else value
        elif text.startswith("In its application"):
            value += amount(text) * (1 if "increased" in text else -1)
        elif "named in §" in text:
            increase = amount(text)
        elif "means one that" in text:
            assert fits(text, question)
        else:
            value = amount(text) + increase
    return value


def last_day(texts: list[str], question: str) -> date:
    first, rest = texts.pop().split(";")
    arrives = day_in(question)
    if "is mailed" in question:
        arrives += timedelta(days=amount(texts.pop()))
    end = arrives + timedelta(days=rule_amount(texts, question) - ("first day" in first))
    while WEEKDAYS[end.weekday()] in rest:
        end += timedelta(days=1)
    return end


def fee(texts: list[str], question: str) -> int:
    definition, value, *more = texts
    assert fits(definition, question)
    total = amount(value)
    for text in more:
        total = total * amount(text) if "one unit" in text else total + total * amount(text) // 100
    return total


def fine(texts: list[str]) -> int:
    _, offence, scale, *again = texts
    assert offence.split()[-1] == re.search(r"class (\w)", scale)[1]
    return amount(scale) + (amount(scale) * numbers(again[0])[-1] // 100 if again else 0)


def expected(law: GeneratedWorld, question: GeneratedQuestion) -> str:
    sections = [section.partition(":(")[0] for section in question.support]
    texts = [law.library.read(section).text for section in question.support]
    if question.kind == "deadline":
        return date_forms(last_day(texts, question.text))[0]
    if question.kind == "definition":
        return str(fee(texts, question.text))
    if question.kind == "reference" and question.reads > 2:
        return str(fine(texts))
    if question.kind == "comparison":
        chapter = sections[0].rpartition("-")[0]
        left = [text for text, section in zip(texts, sections, strict=True) if section.startswith(f"{chapter}-")]
        values = rule_amount(left, question.text), rule_amount(texts[len(left) :], question.text)
        if question.metric == "numeric":
            return str(abs(values[0] - values[1]))
        winner = sections[0] if values[0] > values[1] else sections[-1]
        return law.library.path(winner)[1].heading
    return str(rule_amount(texts, question.text))
