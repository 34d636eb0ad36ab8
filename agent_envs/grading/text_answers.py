"""Answers are compared by exact match, containment, token F1 or number, in one copy for environments, baselines and judges."""

import re
import string
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

from agent_envs.grading.dressed_numbers import has_plain, is_plain, plain_number

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = ("a", "an", "the")
_ARTICLE = re.compile(rf"\b({'|'.join(_ARTICLES)})\b")
_ABSTAINS = re.compile(r"(unknown|unanswerable|i (dont|don’t|do not) know\b.*)", re.S)  # after normalisation
_CLOSED = frozenset(("yes", "no", "noanswer"))
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?")
_VALUE = re.compile(r"[\d%]").search  # a sign of a number, or of one that is none
_SIGNED_MONEY = re.compile(r"^([-+]) ?\$ ?")
# A whole part in groups of three. "0,125" is a decimal comma, "1,23,456" and "12,34" are lists or slips.
_GROUPED = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?![\d,])", re.ASCII)


def normalise_answer(text: str) -> str:
    """Return the form in which answers are compared: SQuAD's, as Search-R1 uses it (arXiv 2503.09516, qa_em.py).

    Lower case, ASCII punctuation removed, articles replaced by a space, white space folded. Curly quotes and dashes
    outside ASCII survive, as they do in the published scores.
    """
    if text.isascii() and text.replace(" ", "").isalnum():  # words alone, in half the time
        return " ".join([word for word in text.lower().split() if word not in _ARTICLES])
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


_normal_gold = lru_cache(maxsize=1_024)(normalise_answer)  # a gold is met again in each rollout of its task


def exact_match(prediction: str, golds: Iterable[str]) -> bool:
    """Return whether the prediction equals any gold after normalisation; one that is all article or punctuation as it stands.

    A gold that normalises to nothing ("The") is compared as it stands, in lower case: otherwise an empty answer would
    match it. An empty prediction matches nothing.
    """
    normal_prediction = normalise_answer(prediction)
    for gold in golds:
        normal = _normal_gold(gold)
        if normal:
            if normal == normal_prediction:
                return True
        elif gold.strip() and gold.strip().lower() == prediction.strip().lower():
            return True
    return False


@lru_cache(maxsize=8)  # success and reward of a turn compare the same texts
def same_answer(prediction: str, golds: tuple[str, ...]) -> bool:
    """Return whether the prediction equals a gold: as a number where the gold is one and nothing else, else by exact match.

    `20 USD` is 20; `20 %` and `2.0` are not, which a match without punctuation takes for it. "50 Cent" is no number.
    """
    if not _VALUE(prediction) or not has_plain(golds) or prediction in golds:
        return exact_match(prediction, golds)
    for gold in golds:
        number = plain_number(gold) if is_plain(gold) else None
        value = plain_number(prediction) if number is not None else None
        by_value = number is not None and (value is not None or "%" in prediction)
        if (value == number) if by_value else exact_match(prediction, (gold,)):
            return True
    return False


def says_unknown(answer: str) -> bool:
    """Return whether an answer abstains: "unknown", "I don't know" and whatever follows."""
    return _ABSTAINS.fullmatch(normalise_answer(answer[:10_000])) is not None


def contains_answer_characters(text: str, golds: Iterable[str]) -> bool:
    """Return whether a gold is a character substring, as Search-R1's retrieval check has it: "no" is in "north"."""
    normal = normalise_answer(text)
    return any(normalise_answer(gold) in normal for gold in golds)


def token_f1(prediction: str, golds: Iterable[str]) -> float:
    """Return the best F1 of the bags of normalised words over the golds, in [0, 1]; 0.0 if no word is shared or none given.

    Yes, no and noanswer are right or wrong, on either side, as HotpotQA has it: "yes it is" shares nothing with "yes".
    """
    normal = normalise_answer(prediction)
    words = Counter(normal.split())
    best = 0.0
    for gold in golds:
        normal_gold = normalise_answer(gold)
        if normal != normal_gold and _CLOSED & {normal, normal_gold}:
            continue
        target = Counter(normal_gold.split())
        shared = sum((words & target).values())
        if shared:
            best = max(best, 2 * shared / (sum(words.values()) + sum(target.values())))
    return best


def without_thousands(text: str) -> str:
    """Return a text without the commas that separate thousands ("1,234.5"); every other comma stays ("1,2", "0,125")."""
    return _GROUPED.sub(lambda number: number[0].replace(",", ""), text) if "," in text else text


def parse_number(text: str) -> Fraction | None:
    """Return the exact value of "1,234.5", "-3/4", "-$20", "12%" (as 12) or "1e-3"; None for anything else and for x/0.

    A comma separates thousands and nothing else: "1,2" and "12,34" are no numbers. Texts above 400 characters are none
    either, which bounds the work on hostile input.
    """
    trimmed = _SIGNED_MONEY.sub(r"\1", text.strip()).strip("$%").strip().rstrip(".")
    if len(trimmed) > 400 or not trimmed.isascii():
        return None
    parts = [without_thousands(part.strip()) for part in trimmed.split("/")]
    if len(parts) > 2 or not all(map(_NUMBER.fullmatch, parts)):
        return None
    values = list(map(Fraction, parts))
    if len(values) == 1:
        return values[0]
    return values[0] / values[1] if values[1] else None
