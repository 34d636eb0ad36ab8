"""Action templates are what an environment's own prompt suggests: its tags, marks, labels and tools, filled from what is shown.

A gene names a frame (`tag:search`, `mark`, `label`, `tool:get_order`, `say`, `expanded`), where its text comes from (the
question, a number, a name or an id of the last observation, a phrase that the prompt quotes), which one of them, and a style.
Nothing here reads a task's answer: a plan of genes knows what a policy without weights could know.
"""

import json
import random
import re
from dataclasses import dataclass
from typing import Any

STYLES = ("bare", "think", "long", "twice", "open")
SOURCES = (
    "question", "observation", "phrase", "word", "number", "asked number", "name", "asked name", "id", "numbers", "names",
    "sum",
)  # fmt: skip
CITED = ("cited number", "cited name", "cited phrase")
MOST_PLACES, MOST_EXPANDED, MOST_GENES = 6, 16, 6
_FILLER = "This has to be weighed with care, step by step. " * 60
_SHOWN_TAGS = ("think", "information", "result", "tool_call", "policy")
_TAG = re.compile(r"<(\w+)>([^<>]{0,200})</\1>")
_ACTION = re.compile(r"^- ([a-z][a-z ]*): ", re.MULTILINE)
_QUOTED = re.compile(r"\"([^\"\n]{2,60})\"|`([^`\n]{2,60})`")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_NAME = re.compile(r"\b[A-Z][\w'-]+(?: (?:& |of |the )?[A-Z][\w'-]+)*")
_ID = re.compile(r"\[([^\]\s]{1,40})\]|#?\b(?=[\w.:()-]*\d)[A-Za-z][\w.:()-]{2,40}")
_WORD = re.compile(r"[A-Za-z]{4,}")


@dataclass(frozen=True, slots=True)
class Gene:
    """One turn of a plan."""

    frame: str
    source: str
    place: int
    style: str

    def as_list(self) -> list[Any]:
        """Return it as JSON."""
        return [self.frame, self.source, self.place, self.style]


class Screen:
    """The texts that a plan may use: the prompt, the question, and the last observation."""

    def __init__(self, prompt: str, question: str, observation: str) -> None:
        """Take the texts."""
        self.prompt, self.question, self.observation = prompt, question, observation

    def text(self, source: str, place: int, phrases: tuple[str, ...]) -> str:
        """Return the text that a source gives; "" where it has none."""
        if source.startswith("cited "):
            ids = "; ".join(dict.fromkeys(self._ids()[:MOST_PLACES]))
            return f"{self.text(source.removeprefix('cited '), place, phrases)} [sources: {ids}]"
        if source in ("question", "observation"):
            return (self.question if source == "question" else self.observation)[:2_000]
        if source in ("numbers", "names"):
            return ", ".join(self._all(source.removesuffix("s"))[:20])
        if source == "sum":
            return " + ".join(_NUMBER.findall(self.question)) or "0"
        choices = list(phrases) if source == "phrase" else self._all(source)
        return choices[place % len(choices)] if choices else ""

    def _all(self, source: str) -> list[str]:
        shown = self.question if source.startswith("asked ") else self.observation
        if source == "id":
            return self._ids()
        kinds = {"number": _NUMBER, "name": _NAME, "word": _WORD}
        return kinds[source.removeprefix("asked ")].findall(shown)

    def _ids(self) -> list[str]:
        return [found[1] or found[0] for found in _ID.finditer(self.observation)]


class Templates:
    """The frames and phrases that a prompt suggests, and actions made of them."""

    def __init__(self, prompt: str, info: dict[str, Any]) -> None:
        """Read what the prompt and the tools' schemas suggest."""
        self.tools = {tool["function"]["name"]: tool["function"] for tool in info["tools"]}
        tags = [name for name in dict.fromkeys(name for name, _ in _TAG.findall(prompt)) if name not in _SHOWN_TAGS]
        self.actions = tuple(_ACTION.findall(prompt)) if "ACTION:" in prompt else ()
        frames = [f"tag:{name}" for name in tags] + [f"tool:{name}" for name in self.tools]
        frames += ["box:answer"] if "\\boxed{" in prompt else []
        frames += ["mark"] if "####" in prompt else []
        frames += ["label"] if self.actions else []
        frames += ["expanded"] * 3 if "action_mask" in info else []
        self.frames = (*frames, "say")
        examples = [body.strip() for name, body in _TAG.findall(prompt) if name not in _SHOWN_TAGS]
        quoted = ["".join(pair) for pair in _QUOTED.findall(prompt)]
        plain = ["yes", "no", "unknown", "0", "1", "2", "10", "I don't know", "done", "Yes, I confirm.", "###STOP###"]
        self.phrases = tuple(dict.fromkeys([*examples, *quoted[:12], *plain]))
        self.sources = (*SOURCES, *(CITED if "[sources:" in prompt else ()))

    def gene(self, rng: random.Random) -> Gene:
        """Return any gene."""
        frame = rng.choice(self.frames)
        places = len(self.phrases) if frame != "label" else len(self.actions)
        source = "phrase" if frame == "label" else rng.choice(self.sources)
        most = places if source in ("phrase", "cited phrase") or frame == "label" else MOST_PLACES
        most = MOST_EXPANDED if frame == "expanded" else most
        return Gene(frame, source, rng.randrange(max(most, 1)), rng.choice(STYLES))

    def plan(self, rng: random.Random) -> tuple[Gene, ...]:
        """Return any plan."""
        return tuple(self.gene(rng) for _ in range(rng.randint(1, MOST_GENES)))

    def mutated(self, plan: tuple[Gene, ...], rng: random.Random) -> tuple[Gene, ...]:
        """Return a plan with one gene changed in part or whole, put in, repeated or taken out."""
        genes, at = list(plan), rng.randrange(len(plan))
        step = rng.choice(("whole", "part", "part", "put in", "repeat", "take out"))
        fresh = self.gene(rng)
        if step == "whole":
            genes[at] = fresh
        elif step == "part":
            old, parts = genes[at], [(fresh.source, fresh.place), fresh.style]
            kept = (old.source, old.place)
            changes_text = rng.random() < 0.7 and (old.frame == "label") == (fresh.frame == "label")
            (source, place), style = (parts[0], old.style) if changes_text else (kept, parts[1])
            genes[at] = Gene(old.frame, source, place, style)
        elif step == "take out" and len(genes) > 1:
            del genes[at]
        elif len(genes) < 2 * MOST_GENES:
            genes.insert(at, fresh if step == "put in" else genes[at])
        return tuple(genes)

    def action(self, gene: Gene, screen: Screen, mask: Any) -> str | int:
        """Return the action that a gene makes of what is shown."""
        if gene.frame == "expanded":
            legal = [number for number, allowed in enumerate(mask) if allowed]
            return legal[gene.place % len(legal)] if legal else 0
        kind, _, name = gene.frame.partition(":")
        text = screen.text(gene.source, gene.place, self.phrases)
        if kind == "tag":
            body = f"<{name}>{text}</{name}>"
        elif kind == "box":
            body = f"<{name}>\\boxed{{{text}}}</{name}>"
        elif kind == "tool":
            body = self._call(name, gene, screen)
        elif kind == "label":
            body = f"ACTION: {self.actions[gene.place % len(self.actions)]}"
        else:
            body = f"#### {text}" if kind == "mark" else text
        return _styled(body, gene.style)

    def _call(self, name: str, gene: Gene, screen: Screen) -> str:
        schema = self.tools[name].get("parameters", {})
        values = {key: self._value(key, kind, gene, screen) for key, kind in schema.get("properties", {}).items()}
        call = json.dumps({"name": name, "arguments": values})
        return f"<tool_call>\n{call}\n</tool_call>"

    def _value(self, key: str, kind: dict[str, Any], gene: Gene, screen: Screen) -> Any:
        if kind.get("enum"):
            return kind["enum"][gene.place % len(kind["enum"])]
        if kind.get("type") == "array":
            return [self._value(key, kind.get("items", {}), gene, screen)]
        if kind.get("type") in ("integer", "number"):
            number = screen.text("number", gene.place, self.phrases).replace(",", "") or "1"
            return int(float(number)) if kind["type"] == "integer" else float(number)
        if kind.get("type") == "boolean":
            return gene.place % 2 == 0
        if kind.get("type") == "object":
            return {}
        source = "id" if "id" in key.split("_") or key.endswith("ids") else gene.source
        return screen.text(source, gene.place, self.phrases)[:200]


def _styled(body: str, style: str) -> str:
    if style == "think":
        return f"<think>so</think>{body}"
    if style == "long":
        return f"<think>{_FILLER}</think>{body}"
    if style == "twice":
        return f"{body}\n{body}"
    return re.sub(r"</\w+>$", "", body) if style == "open" else body
