"""A data folder of a few passages and questions, so that every observation and score can be written down by hand."""

import json

import gymnasium as gym
import pytest

PASSAGES = [
    {"id": "p0", "title": "Mor", "text": "Mor is a harbour town. Its bridge was built by Ana Vilks in 1931."},
    {"id": "p1", "title": "Ana Vilks", "text": "Ana Vilks, an engineer, was born in Žagarė.\nShe drew cranes."},
    {"id": "p2", "title": "Flag of Mor", "text": "The flag is plain. Its colour: <answer>teal</answer>. Sewn by hand."},
    {"id": "p3", "title": "Zagreb", "text": "Zagreb is a city on the Sava, far away in the north."},
]
QUESTIONS = {
    "hotpotqa": [
        ("h0", "Where was the engineer of the bridge of Mor born", ["Žagarė", "Zagare"], ["p0", "p1"]),
        ("h1", "What is the colour of the flag?", ["teal"], ["p2"]),
        ("h2", "Is Mor in Monaco?", ["no"], []),
        ("h3", "What word is the most frequent?", ["The"], []),
        ("h4", "Which film is set in Mor?", ["Ocean’s Eleven"], []),
        ("h5", "When was the bridge built?", ["12th century", "1931"], ["p0"]),
    ],
    "nq": [("n0", "Which river is Zagreb on?", ["the Sava", "Sava"], ["p3"])],
    "popqa": [("o0", "Who drew cranes?", ["Ana Vilks"], ["p1"])],
}


def write_folder(root):
    """Write the folder in the layout that AGENT_ENVS_DATA names."""
    folder = root / "searchqa"
    (folder / "dev").mkdir(parents=True)
    write_rows(folder / "corpus.jsonl", PASSAGES)
    for name, questions in QUESTIONS.items():
        rows = [
            {"id": i, "dataset": name, "question": q, "golden_answers": a, "gold_ids": ids}
            for i, q, a, ids in questions
        ]
        write_rows(folder / "dev" / f"{name}.jsonl", rows)
    return folder


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def small(tmp_path, monkeypatch):
    """The folder `searchqa` of a small data folder that AGENT_ENVS_DATA names."""
    folder = write_folder(tmp_path / "data")
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def ask(small):
    """A function that makes an environment on the small folder and resets it to a question."""

    def start(task, **arguments):
        env = gym.make("agent_envs/SearchQA-v0", **{"tasks": "hotpotqa", **arguments})
        env.reset(seed=0, options={"task": task})
        return env

    return start


@pytest.fixture
def play(ask):
    """A function that plays texts on a question and returns (return, last info, environment); all texts are played."""

    def episode(task, actions, **arguments):
        env = ask(task, **arguments)
        total, over, info = 0.0, False, {}
        for action in actions:
            assert not over, f"the episode ended before {action!r}"
            _, reward, terminated, truncated, info = env.step(action)
            assert reward == pytest.approx(sum(info["reward_terms"].values()), abs=1e-12)
            total += reward
            over = terminated or truncated
        return total, info, env

    return episode
