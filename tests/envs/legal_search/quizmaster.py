"""A chat model from a script that asks about figures in sections, answers them, and judges; and a corpus of nodes for it."""

import json
import re

from agent_envs.services.chat import ScriptedChat

FIGURE = re.compile(r"\b(\d+) days\b")
SHOWN = re.compile(r"^ID: (.+)\n(.+)\n(.*)$", re.MULTILINE)


def sections(prompt):
    return SHOWN.findall(prompt)


def topic_of(label):
    return label.rpartition(". ")[2].lower()


def said(**fields):
    return f"Let me see.\n{json.dumps(fields)}"


class Quiz:
    """The script; it counts its calls, and what it says of some sections can be set."""

    def __init__(self, oddities=None):
        self.calls = 0
        self.kinds = []
        self.oddities = oddities or {}

    def __call__(self, request):
        self.calls += 1
        prompt = request.messages[-1]["content"]
        kind = "ask" if "exam questions" in prompt else "judge" if "CANDIDATE:" in prompt else "check"
        self.kinds.append(kind)
        return getattr(self, kind)(prompt)

    def ask(self, prompt):
        (name, _, _), *_ = shown = sections(prompt)
        if name in self.oddities:
            return self.oddities[name]
        figures = [int(FIGURE.search(text)[1]) for _, _, text in shown]
        topics = " and that on ".join(topic_of(label) for _, label, _ in shown)
        return said(
            question=f"How many days does the rule on {topics} give in all?",
            answer=f"{sum(figures)} days",
            sections=[place for place, _, _ in shown],
        )

    def check(self, prompt):
        question = prompt.rpartition("QUESTION: ")[2]
        figures = {topic_of(label): int(FIGURE.search(text)[1]) for _, label, text in sections(prompt)}
        wanted = [topic for topic in TOPICS if f" {topic} " in question]
        if wanted and set(wanted) <= set(figures):
            return said(answer=f"{sum(figures[topic] for topic in wanted)} days")
        return said(answer="I don't know")

    def judge(self, prompt):
        golds = json.loads(re.search(r"^REFERENCES: (.*)$", prompt, re.MULTILINE)[1])
        answer = json.loads(re.search(r"^CANDIDATE: (.*)$", prompt, re.MULTILINE)[1])
        return "YES" if answer in golds else "NO"


def model(quiz=None, name="scripted"):
    return ScriptedChat(quiz or Quiz(), name)


TOPICS = (
    "amber beacon cellar dragnet ember falcon granite hamlet ibex juniper kiosk lagoon mantle nectar orchid parlour quarry "
    "ribbon saddle thimble umbra velvet walnut yeoman zephyr"
).split()


def node_rows():
    """Two titles with colons and spaces in their ids, chapters of three sections, and a section a topic."""
    rows = []
    for title, topics in (("T 1", TOPICS[:12]), ("T:2", TOPICS[12:])):
        chapters = {f"{title}:C{place}": topics[place : place + 3] for place in range(0, len(topics), 3)}
        rows.append(node(title, None, "title", title[2:], "Things", "", list(chapters)))
        for chapter, inside in chapters.items():
            places = {topic: topics.index(topic) for topic in inside}
            names = [f"{title}:28:{place}-6" for place in places.values()]
            rows.append(node(chapter, title, "chapter", chapter[-1], "Some", "", names))
            for name, (topic, place) in zip(names, places.items(), strict=True):
                cited = f"28:{(place + 5) % len(topics)}-6"
                text = (
                    f"Whoever keeps a {topic} has {100 + TOPICS.index(topic)} days to say so at the office of the town, "
                    f"and shall do so in writing with the name of the owner, as section {cited} has it."
                )
                rows.append(node(name, chapter, "section", f"28:{place}-6", topic.capitalize(), text, []))
    return rows


def node(*values):
    return dict(zip(("id", "parent", "level", "num", "heading", "text", "children"), values, strict=True))


def write_nodes(path):
    path.write_text("".join(json.dumps(row) + "\n" for row in node_rows()), encoding="utf-8")
    return path
