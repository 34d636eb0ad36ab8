"""Scripted feedback of Search QA: who follows good hints answers more, and the words are few."""

import random
import re

import gymnasium as gym
import pytest

from agent_envs.base.messages import Message
from agent_envs.envs.search_qa.chains import documents, follow, parse_question
from agent_envs.envs.search_qa.feedback import give_feedback
from agent_envs.envs.search_qa.heuristic import guess
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy
from tests.examples import part
from tests.hinted import along, counts

CLOSED = {"vocabulary": "closed", "short": True, "paraphrase": False}


def as_text(moment):
    """Looks up what it is told to look up, and answers when it is told to; else it searches once and guesses."""
    question = moment.messages[0].content.rpartition("Question: ")[2].strip()
    shown = "\n".join(message.content for message in moment.messages if message.author == "tool")
    asked_for = re.findall(r": (.+?\?)(?: (.+?\?))? (?:Look up|Answer now|Compare)", moment.hint)
    named = re.search(r"(?:Look up|Answer now with) (.+?)(?: with other words| once more)?\.$", moment.hint)
    if "Look up" in moment.hint:
        return f"<search>{asked_for[0][0] if asked_for else named[1]}</search>"
    if "Answer unknown" in moment.hint:
        return "<answer>unknown</answer>"
    if "Compare them" in moment.hint:
        return f"<answer>{compared(question, asked_for[0], shown)}</answer>"
    if "Answer now" in moment.hint:
        last = read(asked_for[0][0], shown) if asked_for else named[1] if named else guess(question, shown)
        return f"<answer>{last}</answer>"
    return f"<answer>{guess(question, shown)}</answer>" if shown else f"<search>{question}</search>"


def read(question, shown):
    """Return the name or year at the end of the sentence that shares most words with a question of one fact."""
    asked_words = set(re.findall(r"\w+", question.lower()))
    pattern = r"\b\d{4}\b" if "year" in question else r"(?:[A-Z][\w'-]+(?: of)? ?)+"
    best = (0, "")
    for document in documents_of(shown):
        if document.title.partition(" (")[0] not in question:
            continue
        for sentence in re.split(r"(?<=\.) ", document.text):
            spans = [span.strip() for span in re.findall(pattern, sentence) if span.strip() not in question]
            shared = len(asked_words & set(re.findall(r"\w+", sentence.lower())))
            if spans and shared > best[0]:
                best = (shared, spans[-1])
    return best[1]


def documents_of(shown):
    return [one for part in shown.split("</information>") for one in documents(part + "</information>")]


def compared(question, pair, shown):
    """Compare what the documents seem to say to the two questions of a hint."""
    values = [read(one, shown) for one in pair]
    if question.split()[0] in ("Were", "Do", "Have", "Did", "Are"):
        return "yes" if values[0] == values[1] else "no"
    years = [int(value) if value.isdigit() else 0 for value in values]
    if re.match(r"How many|By how many", question):
        return abs(years[0] - years[1])
    early = re.search(r"first|longer history|older|elder|earlier", question)
    chosen = pair[years.index(min(years) if early else max(years))]
    return re.search(r"(?:[A-Z]\w+ ?)+(?= |\?)", chosen.partition(" ")[2])[0]


@pytest.mark.parametrize(
    "arguments, found",
    [
        ({}, part([36, 4, 0], [10, 1, 0])),
        ({"world": CLOSED}, part([39, 9, 0], [10, 3, 0])),
        ({"world": {"unanswerable": 0.5}}, part([38, 4, 0], [9, 1, 0])),
        (
            {
                "world": {**CLOSED, "hops": [1, 2], "kinds": ["bridge"], "passages": 60},
                "top_k": 1,
                "max_generations": 4,
            },
            part([39, 17, 0], [10, 5, 0]),
        ),
        ({"observation_format": "skyrl_json"}, part([36, 4, 0], [10, 1, 0])),
    ],
    ids=str,
)
def test_good_hints_help_and_misleading_ones_hurt(arguments, found):
    env = gym.make("agent_envs/SearchQA-v0", **arguments)
    assert list(counts(env, range(part(40, 10)), as_text).values()) == found


def test_a_chain_is_followed_name_by_name():
    env = gym.make("agent_envs/SearchQA-v0", world=CLOSED)
    assert along(env, 40) == [
        "One fact is missing: Where does the painting The Narrow Crown hang? Look up The Narrow Crown.",
        "One fact is missing: In which city does Halman Collection stand? Look up Halman Collection.",
        "One fact is missing: In which region does Norstad lie? Look up Norstad.",
        "One fact is missing: What is the capital of Morrick Peninsula? Look up Morrick Peninsula.",
        "The documents tell the last fact: What is the capital of Morrick Peninsula? Answer now with that alone.",
    ]
    assert along(env, 40, "misleading")[1::3] == [
        "Enough is known. Answer now with Halman Collection.",
        "That is not sure yet. Look up The Narrow Crown once more.",
    ]


def test_nothing_is_said_to_be_unknown_that_was_retrieved():
    """A query by other words may bring the page of a name that no query held: then "nothing is known of it" would be untrue."""
    asked_for = "You have 5 searches and 6 turns in all.\n\nQuestion: Did Ana Vilks ever see Mor Bridge with Jon Ek?"
    question = Message("user", asked_for, "environment")
    query = Message("assistant", "<search>the woman who built bridges</search>", "policy")
    pages = 'Doc 1(Title: "Ana Vilks") She was born in Riga.\nDoc 2(Title: "Bridges") Mor Bridge fell in 1934.'
    found = Message("user", f"<information>{pages}</information>", "tool")
    assert said([question, query, found]) == "Nothing is known of Jon Ek yet. Look up Jon Ek."
    again = Message("assistant", "<search>Jon Ek</search>", "policy")
    none = Message("user", '<information>Doc 1(Title: "Jon Ek") A diver.</information>', "tool")
    hint = said([question, query, found, again, none])
    assert hint == "The documents speak of Ana Vilks, but perhaps not of what is asked. Look up Ana Vilks."
    third = Message("assistant", "<search>Ana Vilks</search>", "policy")
    assert "speak of Mor Bridge" in said([question, query, found, again, none, third, none])


@pytest.mark.parametrize(
    ("name", "spoken_of"),
    [
        ("Toni Jennings's", "Toni Jennings is a politician."),
        ("Lourenco Mutarelli", "Louren\u00e7o Mutarelli drew comics."),
        ("Jo Ann Vilks", "Jo Vilks fell ill."),
        ("Jo Vilks\u2019", "Jo Maria Ann Vilks fell ill."),
    ],
)
def test_names_of_real_questions_are_found_as_documents_write_them(name, spoken_of):
    """Possessives, accents and middle names: documents that were retrieved speak of the person, whatever the spelling."""
    question = Message(
        "user", f"You have 5 searches and 6 turns in all.\n\nQuestion: What is {name} job?", "environment"
    )
    query = Message("assistant", "<search>the job</search>", "policy")
    for text, known in ((spoken_of, True), (spoken_of.split()[0] + " Bor is a diver.", False)):
        found = Message("user", f'<information>Doc 1(Title: "Jobs") {text}</information>', "tool")
        hint = said([question, query, found])
        assert hint.startswith("The documents speak of" if known else "Nothing is known of"), (name, text)
        assert "'s" not in hint and "\u2019" not in hint


def test_questions_of_other_sets_are_led_by_their_names():
    question = Message(
        "user", "You have 2 searches and 3 turns in all.\n\nQuestion: Did Ana Vilks ever see Mor Bridge?", "environment"
    )
    first = Message("assistant", "<search>Ana Vilks</search>", "policy")
    found = Message("user", '<information>Doc 1(Title: "Ana Vilks") She built bridges.</information>', "tool")
    second = Message("assistant", "<search>Mor Bridge</search>", "policy")
    assert said([question]) == "Nothing is known of Ana Vilks yet. Look up Ana Vilks."
    assert said([question, first, found]) == "Nothing is known of Mor Bridge yet. Look up Mor Bridge."
    end = "All names of the question were looked up. Answer now with what the documents say."
    assert said([question, first, found, second, found]) == end


def said(messages):
    return give_feedback(messages, "exploit", "good", random.Random(0))


@pytest.mark.parametrize("world", [{}, CLOSED, {"unanswerable": 0.4}], ids=str)
def test_every_question_of_a_world_is_understood(world):
    env = gym.make("agent_envs/SearchQA-v0", world=world)
    for number in range(60):
        played = run_episode(env, CompanionPolicy("solver"), seed=0, task=number).trajectory
        shown = [one for turn in played.turns for message in turn.observation for one in documents(message.content)]
        ways = [follow(side, shown) for side in parse_question(played.task.question).sides]
        if "unanswerable" in played.task.gold:
            assert not ways[0].complete
        else:
            assert all(way.complete for way in ways)
            assert len(ways) == 2 or ways[0].value in played.task.gold
