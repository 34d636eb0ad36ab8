"""Token sequences rebuilt from a recorded trajectory equal those that were sampled, token by token."""

import gymnasium as gym
import pytest

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import Message
from agent_envs.core.trajectory import Header, Trajectory, Turn
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.wrappers import ForcedAnswer, Memory
from tests.trainers.tokens.toys import SCHEMA, TEMPLATES, Scripted, bpe, words
from trainers.tokens import ChatTokenizer, drift

SEARCH = [
    ("<think>the harbour</think>\n<search>the town</search>", "stop"),
    (" \n<search>north</search> and then\n", "eos"),
    ("I do not kn", "length"),
    ("<search></search>", "eos"),
    ("<answer>the town", "length"),
]
SORT = [("<compare>a b</compare>", "stop"), ("swap?", "eos"), ("<swap>a b</swap>", "eos"), ("<answer>a < b", "length")]
GAMES = {
    "search": ("agent_envs/SearchQA-v0", {}, SEARCH),
    "json": ("agent_envs/SearchQA-v0", {"observation_format": "skyrl_json"}, SEARCH),
    "sort": ("agent_envs/Sort-v0", {}, SORT),
}
WRAPPED = {
    "append": lambda env: env,
    "memory": lambda env: Memory(env, turns=1),
    "forgetful": lambda env: Memory(env, turns=0),
    "forced": lambda env: ForcedAnswer(env, free_turns=2),
    "forced in memory": lambda env: Memory(ForcedAnswer(env, free_turns=2), turns=1),
}


@pytest.mark.parametrize("game", sorted(GAMES))
@pytest.mark.parametrize("wrapped", sorted(WRAPPED))
@pytest.mark.parametrize("template", ["chatml", "qwen", "llama", TEMPLATES["strips thoughts"], TEMPLATES["alternates"]])
def test_a_record_gives_back_the_tokens_that_were_played(game, wrapped, template):
    env_id, arguments, script = GAMES[game]
    chat = ChatTokenizer(bpe(template), template)
    policy = Scripted(chat, script)
    trajectory = run_episode(WRAPPED[wrapped](gym.make(env_id, **arguments)), policy, seed=3).trajectory
    played = [conversation.sequence() for conversation in policy.conversations]
    assert len(trajectory.turns) >= 3
    rebuilt = chat.sequences(trajectory)
    assert rebuilt == played
    assert [drift(ours, theirs) for ours, theirs in zip(played, rebuilt, strict=True)] == [0] * len(played)
    assert (len(played) > 1) == ("memory" in wrapped or wrapped == "forgetful")
    stored = Trajectory.from_json(trajectory.to_json())
    assert chat.sequences(stored) == played


def test_masks_and_texts_of_a_played_episode():
    chat = ChatTokenizer(bpe(), "chatml")
    policy = Scripted(chat, SEARCH)
    trajectory = run_episode(ForcedAnswer(gym.make("agent_envs/SearchQA-v0"), free_turns=2), policy, seed=3).trajectory
    (row,) = chat.sequences(trajectory)
    for turn in trajectory.turns:
        mine = [place for place, number in enumerate(row.turns) if number == turn.index]
        marks = turn.sampled or (True,) * len(turn.token_ids)
        sampled = [place for place, mark in enumerate(marks) if mark]
        assert [row.ids[place] for place in mine] == [turn.token_ids[place] for place in sampled]
        assert [row.logprobs[place] for place in mine] == [turn.logprobs[place] for place in sampled]
        assert chat.decode([row.ids[place] for place in mine]) == SEARCH[turn.index - 1][0]
        assert chat.decode(turn.token_ids) == policy.texts[turn.index - 1]
    assert trajectory.last.sampled[0] is False  # the forced answer's opening tag was given
    assert all(
        turns == 0 and logprob == 0.0
        for turns, logprob, mine in zip(row.turns, row.logprobs, row.trained, strict=True)
        if not mine
    )
    assert sum(row.trained) == sum(
        len(turn.token_ids) if not turn.sampled else sum(turn.sampled) for turn in trajectory.turns
    )


@pytest.mark.parametrize("make", [bpe, words])
def test_a_solvers_episode_is_a_demonstration(make):
    env = gym.make("agent_envs/SearchQA-v0")
    trajectory = run_episode(env, CompanionPolicy("solver"), seed=1).trajectory
    said = [str(turn.action) for turn in trajectory.turns]
    shown = [message.content for turn in trajectory.turns for message in turn.observation]
    tokenizer = make() if make is bpe else words(extra=" ".join([*said, *shown, trajectory.prompt[-1].content]))
    chat = ChatTokenizer(tokenizer, "qwen")
    (row,) = chat.sequences(trajectory, [SCHEMA])
    for turn in trajectory.turns:
        mine = [number for number, place in zip(row.ids, row.turns, strict=True) if place == turn.index]
        assert mine[-1] == chat.end_ids[0] and chat.decode(mine) == turn.action
    assert set(row.logprobs) == {0.0}
    assert row.trained[-1] and not row.trained[0]


def test_an_episode_with_expanded_actions_is_one_growing_text():
    env = gym.make("agent_envs/SortExpA-v0")
    trajectory = run_episode(env, CompanionPolicy("solver"), seed=2).trajectory
    chat = ChatTokenizer(bpe(), "chatml")
    (row,) = chat.sequences(trajectory)
    text = chat.tokenizer.decode(row.ids)
    appended = [message.content for turn in trajectory.turns[:-1] for message in turn.observation]
    said = [turn.action if isinstance(turn.action, str) else "" for turn in trajectory.turns]
    assert text.count("<|im_start|>assistant") == 1 and "".join(appended)[:40] in text
    assert sum(row.trained) == sum(len(chat.codec.encode(action)) for action in said)


def test_words_between_expanded_actions_are_not_closed():
    chat = ChatTokenizer(bpe(), "chatml")
    written = (Message("assistant", " [x] ", "environment"),)
    turns = tuple(Turn(n, "e/", action, None, written) for n, action in enumerate(("so", 3, "then"), 1))
    header = Header("id", "d", "t", "train", "d", 0, "e")
    (row,) = chat.sequences(Trajectory(header, (Message("user", "q", "environment"),), turns))
    assert chat.tokenizer.decode(row.ids).endswith("assistant\nso [x]  [x] then")
    assert [turn for turn in dict.fromkeys(row.turns) if turn] == [1, 3]


def test_tokens_that_were_given_have_no_logprobs():
    chat = ChatTokenizer(bpe(), "chatml")
    turn = Turn(4, "e/", "ab", None, (), token_ids=(1, 2), logprobs=(-3.0, -4.0), sampled=(False, True))
    header = Header("id", "d", "t", "train", "d", 0, "e")
    (row,) = chat.sequences(Trajectory(header, (Message("user", "q", "environment"),), (turn,)))
    assert (row.ids[-2:], row.trained[-2:], row.logprobs[-2:], row.turns[-2:]) == (
        (1, 2),
        (False, True),
        (0.0, -4.0),
        (0, 4),
    )


def test_what_does_not_fit_is_refused():
    chat = ChatTokenizer(bpe(), "chatml")
    conversation = chat.open([{"role": "user", "content": "q"}])
    with pytest.raises(UsageError, match="2 tokens came with 2 marks and 1 logprobs"):
        conversation.append_sampled([1, 2], [0.0], 1)
    conversation.append_sampled(chat.end_ids, [-1.0], 1)
    for speak in (lambda: conversation.append_sampled([1], [0.0], 2), lambda: conversation.prefill("x")):
        with pytest.raises(UsageError, match="closed"):
            speak()
    with pytest.raises(UsageError, match="a message to open with"):
        chat.open([])


def test_drift_counts_from_the_first_difference():
    chat = ChatTokenizer(bpe(), "chatml")
    one, other = (chat.open([{"role": "user", "content": "q"}]) for _ in range(2))
    one.append_sampled([5, 6, 7], [-1.0] * 3, 1)
    other.append_sampled([5, 8], [-1.0] * 2, 1)
    assert drift(one.sequence(), other.sequence()) == 2
    assert drift(one.sequence(), one.sequence()) == 0
    other.append_context([7])
    assert drift(one.sequence(), other.sequence()) == 2
