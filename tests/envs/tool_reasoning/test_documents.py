import json

import gymnasium as gym
import pytest

from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.envs.tool_reasoning.observations import Document, corpus_document, page_of


def test_neighbours_of_one_title_are_sections_of_a_document():
    rows = [("a", "Rome", "one"), ("b", "Rome", "two"), ("c", "Oslo", "x"), ("d", "Rome", "three")]
    corpus = MemoryCorpus(Passage(*row) for row in rows)
    links = {"a": [("Oslo", "c")], "b": [("Oslo", "c"), ("Rome", "d")]}
    found = corpus_document(corpus, "b", lambda at: links.get(at, []))
    assert found == Document("b", "Rome", "[a]\none\n\n[b]\ntwo", (("Oslo", "c"), ("Rome", "d")))
    assert corpus_document(corpus, "d", lambda at: []) == Document("d", "Rome", "three")
    with pytest.raises(KeyError):
        corpus_document(corpus, "e", lambda at: [])


def test_pages_hold_the_whole_text_once():
    text = " ".join(f"word{number}" for number in range(500))
    document = Document("a", "A", text)
    pages = []
    while (page := page_of(document, len(pages) + 1, 50)) is not None:
        assert len(page.text) <= 200 and page.number == len(pages) + 1
        pages.append(page.text)
    assert " ".join(pages) == text
    assert page_of(document, 1, 50).count == len(pages) > 15
    assert page_of(document, 0, 50) is None and page_of(document, -1, 50) is None


def test_a_text_without_white_space_is_cut_where_the_page_ends():
    document = Document("a", "A", "x" * 450)
    assert [len(page_of(document, number, 50).text) for number in (1, 2, 3)] == [200, 200, 50]
    assert page_of(Document("a", "A", ""), 1, 50).text == ""


def test_published_sets_without_documents_offer_python_alone(tmp_path):
    rows = [{"ID": "2024-I-1", "Problem": "What is 1+1?", "Answer": 2}]
    path = tmp_path / "aime.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    env = gym.make("agent_envs/ToolReasoning-v0", tasks="aime24", path=str(path))
    _, info = env.reset(options={"task": 0})
    assert env.unwrapped.offered == ("python",) and info["stop"] == ["</python>", "</answer>"]
    assert env.step("<answer>\\boxed{2}</answer>")[1] == 1.0


def test_the_address_where_a_walk_starts_stands_in_the_prompt(tmp_path):
    row = {"question": "Who?", "answer": "Ada", "root_url": "https://example.org/start", "info": {}}
    path = tmp_path / "walker.jsonl"
    path.write_text(json.dumps(row))
    env = gym.make("agent_envs/ToolReasoning-v0", tasks="webwalkerqa", path=str(path))
    observation, _ = env.reset(options={"task": 0})
    assert observation.endswith("Question: Who?\nThe way to the answer starts at https://example.org/start")
