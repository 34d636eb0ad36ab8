"""Expanded episodes in lock-step: the tokens, logprobs, environments and records of each are those of playing it alone."""

from collections import Counter
from dataclasses import replace
from functools import cache

import gymnasium as gym
import pytest
import torch
from gymnasium.envs.registration import EnvSpec

from agent_envs import EnvFault, replay, restore
from agent_envs.base.errors import UsageError
from agent_envs.base.protocol import Malformed
from agent_envs.core.env import core_of, spec_json
from agent_envs.core.snapshot import fork
from agent_envs.core.trajectory import TrajectoryTree
from agent_envs.envs.expa.expanded_env import ExpandedActionEnv
from agent_envs.rollout.episode_runner import record_turn
from agent_envs.rollout.policy import CompanionPolicy, Reply
from agent_envs.rollout.run_many import run_many
from agent_envs.wrappers import Memory
from tests.trainers.earl_parts.expanded.players import chat_of, model_for, player_for, solved
from trainers.contracts import Sampling, TokenSequence
from trainers.earl_parts.expa_head import attach_head
from trainers.earl_parts.expanded.player import ExpandedPlayer, StartState
from trainers.earl_parts.expanded.sequences import ExpandedChat, vocabulary_rows
from trainers.sampling import plan_groups
from trainers.tiny.models import tiny_model
from trainers.training.forward import head_of

PLAYERS = {
    "SortExpA": {"env_id": "SortExpA", "size": 3, "eager": 3, "ending": 3},
    "CountdownExpA": {"env_id": "CountdownExpA", "eager": 1, "max_actions": 60},
    "CalcBenchExpA": {"env_id": "CalcBenchExpA", "tokenizer": "bytes", "eager": 1, "ending": 3, "max_actions": 60},
}
EACH = pytest.mark.parametrize("name", PLAYERS)


def made(name, **more):
    return player_for(**{**PLAYERS[name], **more})


@cache
def once_played(name, dtype=torch.float32):
    """A player and what it played, once for all the tests that only look at it."""
    player, model, chat, spec = made(name, dtype=dtype)
    plan = plan_of(spec)
    return player, model, chat, spec, plan, player.play(plan)


def plan_of(spec, tasks=5, size=3, key="k"):
    return plan_groups(spec, "train", list(range(tasks)), size, key)


def env_of(spec):
    return gym.make(EnvSpec.from_json(spec))


def allowed_mask(head, legal):
    """Legal tokens and actions: bool (n, V + actions - 1)."""
    table = head.table(legal)
    return torch.cat([table[:, :1].expand(-1, head.vocabulary), table[:, 1:]], dim=1)


def scored(model, sequence, dtype):
    """Logprobs and entropies of all decisions by one pass without any cache, over everything beside each other."""
    head, bare = head_of(model), model
    with torch.no_grad():
        states = bare.get_decoder()(input_ids=torch.tensor([sequence.ids]), use_cache=False).last_hidden_state[0]
        logits = torch.cat([bare.lm_head(states), states @ head.weight.T], dim=1)
    places = [place for place, kept in enumerate(sequence.trained) if kept]
    allowed = allowed_mask(head, [sequence.legal[place] for place in places])
    logprobs = logits[torch.tensor(places) - 1].to(dtype).masked_fill(~allowed, -torch.inf).log_softmax(-1)
    entropies = -torch.where(allowed, logprobs.exp() * logprobs, 0.0).sum(1)
    targets = torch.tensor([sequence.targets[place] for place in places])
    return logprobs.gather(1, targets[:, None])[:, 0], entropies


def decisions(sequence):
    return [place for place, kept in enumerate(sequence.trained) if kept]


def kinds(results):
    """How episodes ended: by `end`, the environment's limit, or the budget, in language or inside an environment."""
    ends = Counter()
    for result in results.values():
        last = result.trajectory.turns[-1]
        ends["end" if last.token_ids else "budget in language" if last.terminated else "budget inside"] += 1
    return ends


@EACH
@pytest.mark.parametrize("dtype, close", [(torch.float32, 1e-4), (torch.float64, 1e-9)])
def test_logprobs_and_entropies_are_those_of_a_fresh_pass(name, dtype, close):
    player, model, _, _, plan, results = once_played(name, dtype)
    taken = Counter(type(turn.action) for result in results.values() for turn in result.trajectory.turns)
    ended = kinds(results)
    assert taken[int] and taken[str] and len(ended) >= 2, ended
    for item in plan:
        (sequence,) = player.sequences(item.key)
        logprobs, entropies = scored(model, sequence, dtype)
        told = torch.tensor([sequence.logprobs[place] for place in decisions(sequence)], dtype=dtype)
        assert torch.allclose(told, logprobs, atol=close, rtol=0)
        turns = results[item.key].trajectory.turns
        recorded = torch.tensor([value for turn in turns for value in turn.entropies], dtype=dtype)
        assert torch.allclose(recorded, entropies, atol=close, rtol=0)
        assert [value for turn in turns for value in turn.logprobs] == told.tolist()


def test_episodes_end_in_all_ways():
    ended = Counter()
    for name in PLAYERS:
        *_, results = once_played(name)
        ended += kinds(results)
    assert set(ended) == {"end", "budget in language", "budget inside"}


@EACH
def test_results_do_not_depend_on_the_batch(name):
    player, model, chat, _, plan, whole = once_played(name, torch.float64)
    plan = plan[:12]
    limits = {"max_new_tokens": 40}
    for batch, part in ((4, plan), (1, plan[3:6]), (16, plan[::-2])):
        other = ExpandedPlayer(model, chat, Sampling(1.0), batch=batch, **limits)
        results = other.play(part)
        assert list(results) == [item.key for item in part]
        for item in part:
            assert told_alike(other.sequences(item.key)[0], player.sequences(item.key)[0])
            assert actions(results[item.key]) == actions(whole[item.key])
    assert len({player.sequences(item.key)[0].ids for item in plan}) == len(plan)


def actions(result):
    return [(turn.action, turn.token_ids, turn.reward) for turn in result.trajectory.turns]


def told_alike(one, other):
    return replace(one, logprobs=()) == replace(other, logprobs=()) and one.logprobs == pytest.approx(
        other.logprobs, abs=1e-9
    )


@EACH
def test_the_record_alone_gives_the_tokens(name):
    player, _, chat, _, _, results = once_played(name)
    prompts = {key: len(chat.open(result.trajectory.prompt).ids) for key, result in results.items()}
    for key, result in results.items():
        (sequence,) = player.sequences(key)
        assert player.rebuild(result.trajectory) == [sequence]
        assert not any(sequence.trained[: prompts[key]]) and len(sequence.ids) <= prompts[key] + 40
        told = [turn.token_ids for turn in result.trajectory.turns]
        chosen = [sequence.targets[place] for place in decisions(sequence)]
        assert chosen == [token for ids in told for token in ids]
        owners = [turn.index for turn in result.trajectory.turns for _ in turn.token_ids]
        assert [sequence.turns[place] for place in decisions(sequence)] == owners
    assert player.sampled_tokens == sum(len(decisions(player.sequences(key)[0])) for key in results)


def test_what_is_forgotten_is_gone():
    player, _, _, spec = made("SortExpA")
    (key,) = player.play(plan_of(spec, tasks=1, size=1))
    assert player.sequences(key)
    player.forget()
    with pytest.raises(KeyError):
        player.sequences(key)


@EACH
def test_the_model_reads_vocabulary_only_and_what_actions_append_stands_as_text(name):
    player, model, chat, _, _, results = once_played(name)
    head = head_of(model)
    assert head.vocabulary == len(chat.tokenizer)
    for key, result in results.items():
        (sequence,) = player.sequences(key)
        assert max(sequence.ids) < head.vocabulary
        for place, kept in enumerate(sequence.trained):
            legal, target = sequence.legal[place], sequence.targets[place]
            assert bool(legal) == kept
            assert not kept or target - head.vocabulary + 1 in legal or (0 in legal and target < head.vocabulary)
            assert target < head.vocabulary or kept
        prompt = len(chat.open(result.trajectory.prompt).ids)
        if kinds({key: result})["end"]:
            text = "".join(text_parts(result.trajectory))
            assert chat.decode(sequence.ids[prompt:]) == text or "\ufffd" in text


def text_parts(trajectory):
    for turn in trajectory.turns:
        yield turn.action if isinstance(turn.action, str) else ""
        yield from (message.content for message in turn.observation)


@EACH
def test_environments_go_where_a_replay_goes_and_headers_are_those_of_run_many(name):
    *_, spec, plan, results = once_played(name)
    usual = {item.key: result for item, result in run_many(plan, CompanionPolicy("random"))}
    for key, result in results.items():
        assert result.status in ("terminated", "truncated") and result.trajectory.task is None
        assert result.trajectory.header == usual[key].trajectory.header
        assert result.trajectory.prompt == usual[key].trajectory.prompt
        again = replay(env_of(spec), result.trajectory)
        assert [turn.action for turn in again.turns] == [turn.action for turn in result.trajectory.turns]
        assert again.success == result.trajectory.success
        TrajectoryTree(result.trajectory.header, result.trajectory.prompt).add(result.trajectory)


@EACH
def test_nothing_illegal_is_sampled_and_a_spent_budget_ends_the_episode(name):
    *_, results = once_played(name)
    for result in results.values():
        turns = result.trajectory.turns
        spent = [turn for turn in turns if not turn.token_ids]
        assert spent == list(turns[len(turns) - len(spent) :]) and all(turn.action == 0 for turn in spent)
        assert not any(isinstance(turn.parsed, Malformed) for turn in turns if turn.token_ids)
        if spent and spent[-1].truncated:
            assert len(turns) == 60 if "Sort" not in name else 128
        elif spent:
            assert len(spent) == 1 and spent[0].terminated


@EACH
def test_every_run_of_language_can_be_forked_at_each_of_its_tokens(name):
    player, _, chat, spec, plan, results = once_played(name)
    lengths = Counter()
    for item in plan:
        (sequence,) = player.sequences(item.key)
        trajectory, ids = results[item.key].trajectory, sequence.ids
        covered = set()
        for run in player.text_runs(item.key):
            lengths[run.stop - run.start] += 1
            covered |= set(range(run.start, run.stop))
            assert all(0 in sequence.legal[place] for place in range(run.start, run.stop))
            env, twin = env_of(spec), env_of(spec)
            restore(env, run.snapshot)
            before = core_of(env).episode
            assert same_turns(before.turns, trajectory.turns[: len(before.turns)])
            for stop in {run.start + 1, run.stop} & set(range(run.start + 1, run.stop + 1)):
                restore(twin, run.snapshot)
                twin.step(chat.decode(ids[run.start : stop]))
                played = env_of(spec)
                head = trajectory.header
                given = {"task": head.task_id, "split": head.split, "episode_key": head.episode_key}
                played.reset(seed=head.seed, options=given)
                for turn in before.turns:
                    played.step(turn.action)
                played.step(chat.decode(ids[run.start : stop]))
                assert core_of(twin).episode == core_of(played).episode
                if stop == run.stop:
                    assert core_of(twin).episode.turns[-1].action == trajectory.turns[len(before.turns)].action
        tokens = {place for place in decisions(sequence) if sequence.targets[place] < len(chat.tokenizer)}
        assert covered == {place for place in tokens if ids[place] != chat.end_ids[0]}
    assert lengths[0] and max(lengths) > 1


def same_turns(one, other):
    bare = {"token_ids": (), "logprobs": (), "entropies": (), "sampled": ()}
    return [replace(turn, **bare) for turn in one] == [replace(turn, **bare) for turn in other]


def start_at(player, chat, spec, key, result):
    """A counterfactual of an episode: fork at its last longer run, half of it, then the first routing action."""
    (sequence,) = player.sequences(key)
    run = max(player.text_runs(key), key=lambda run: run.stop - run.start)
    stop = run.start + (run.stop - run.start) // 2
    env = env_of(spec)
    restore(env, run.snapshot)
    env = fork(env, branch="cpo")
    turns = list(result.trajectory.turns[: len(core_of(env).episode.turns)])
    ids, logprobs = sequence.ids[run.start : stop], sequence.logprobs[run.start : stop]
    if ids:
        text = chat.decode(ids)
        turns.append(record_turn(env, env.step(text), Reply(text, ids, logprobs)))
    words, legal = player._words, core_of(env).legal_actions()
    turns.append(record_turn(env, env.step(1), Reply(1, (words.rows[1].token_id,), (-1.5,))))
    appended = words.observation_tokens(turns[-1].observation)
    rest = len(appended) - 1
    index = turns[-1].index
    begun = TokenSequence(
        ids=(*sequence.ids[:stop], *appended),
        trained=(*sequence.trained[:stop], True, *[False] * rest),
        logprobs=(*sequence.logprobs[:stop], -1.5, *[0.0] * rest),
        turns=(*sequence.turns[:stop], index, *[0] * rest),
        targets=(*sequence.targets[:stop], words.rows[1].token_id, *appended[1:]),
        legal=(*sequence.legal[:stop], legal, *[()] * rest),
    )
    return StartState(begun, env, tuple(turns)), stop + len(appended)


@EACH
def test_an_episode_goes_on_from_a_fork(name):
    player, model, chat, spec = made(name, dtype=torch.float64)
    plan = plan_of(spec, tasks=3)
    results = player.play(plan)
    factual = {item.key: player.sequences(item.key)[0] for item in plan}
    begun = {item.key: start_at(player, chat, spec, item.key, results[item.key]) for item in plan[::2]}
    again = player.play(plan, {key: start for key, (start, _) in begun.items()})
    for item in plan[1::2]:
        assert told_alike(player.sequences(item.key)[0], factual[item.key])
    went_elsewhere = 0
    for key, (start, length) in begun.items():
        (sequence,), trajectory = player.sequences(key), again[key].trajectory
        assert sequence.ids[:length] == start.sequence.ids and sequence.trained[:length] == start.sequence.trained
        assert trajectory.header.branch == "cpo" and trajectory.turns[: len(start.turns)] == start.turns
        assert player.rebuild(trajectory) == [sequence]
        logprobs, _ = scored(model, sequence, torch.float64)
        new = [place >= length for place in decisions(sequence)]
        told = torch.tensor([sequence.logprobs[place] for place in decisions(sequence)], dtype=torch.float64)
        assert torch.allclose(told[new], logprobs[new], atol=1e-9, rtol=0)
        assert len(sequence.ids) <= len(chat.open(trajectory.prompt).ids) + 40
        assert all(run.start >= length for run in player.text_runs(key))
        tree = TrajectoryTree(trajectory.header, trajectory.prompt)
        tree.add(results[key].trajectory)
        tree.add(trajectory)
        assert len(tree.nodes) < len(trajectory.turns) + len(results[key].trajectory.turns) or not start.turns[:-2]
        went_elsewhere += sequence.ids != factual[key].ids
        replay(env_of(spec), trajectory)
    assert went_elsewhere


def test_seeds_of_forks_are_their_own():
    player, _, chat, spec = made("CountdownExpA")
    (item,) = plan_of(spec, tasks=1, size=1)
    results = player.play([item])
    start, length = start_at(player, chat, spec, item.key, results[item.key])
    other = StartState(start.sequence, fork(start.env, branch="second"), start.turns)
    found = []
    for each in (start, other):
        player.play([item], {item.key: each})
        found.append(player.sequences(item.key)[0].ids)
    assert found[0][:length] == found[1][:length] and found[0] != found[1]


def test_a_text_that_takes_the_last_action_drops_the_decision_behind_it():
    player, _, _, spec = player_for("SortExpA", size=3, eager=3, ending=3, max_actions=1)
    results = player.play(plan_of(spec))
    cut = [result for result in results.values() if isinstance(result.trajectory.turns[-1].action, str)]
    assert cut and all(len(result.trajectory.turns) == 1 for result in results.values())
    for result in cut:
        key = result.trajectory.header.episode_key
        (sequence,) = player.sequences(key)
        assert result.status == "truncated" and player.rebuild(result.trajectory) == [sequence]
        assert set(sequence.turns) == {0, 1}


@pytest.mark.parametrize("limits", [{"max_new_tokens": 0}, {"max_context": 10}])
def test_without_room_nothing_is_sampled(limits):
    player, _, chat, spec = made("SortExpA", limits=limits)
    results = player.play(plan_of(spec))
    assert player.sampled_tokens == 0
    for key, result in results.items():
        assert [turn.action for turn in result.trajectory.turns] == [0]
        assert player.rebuild(result.trajectory) == player.sequences(key)
        assert not any(player.sequences(key)[0].trained)


def test_the_likeliest_is_taken_at_temperature_0():
    player, model, _, spec = made("SortExpA", limits={"sampling": Sampling(0.0)}, dtype=torch.float64)
    plan = plan_of(spec)
    player.play(plan)
    head = head_of(model)
    for item in plan:
        (sequence,) = player.sequences(item.key)
        with torch.no_grad():
            states = model.get_decoder()(input_ids=torch.tensor([sequence.ids])).last_hidden_state[0]
            logits = head.logits(states, model.lm_head(states))
        for place in decisions(sequence):
            allowed = allowed_mask(head, [sequence.legal[place]])[0]
            assert logits[place - 1].masked_fill(~allowed, -torch.inf).argmax() == sequence.targets[place]


def test_filters_are_those_of_the_engines():
    player, _, _, spec = made("CountdownExpA", limits={"sampling": Sampling(0.7, top_k=3, top_p=0.9)})
    for key in player.play(plan_of(spec)):
        (sequence,) = player.sequences(key)
        assert all(player_logprob <= 0 for player_logprob in sequence.logprobs)
        assert min(sequence.logprobs) > -8, "one of the three likeliest"


def test_parts_of_characters_stay_as_they_were_sampled():
    player, _, chat, spec = made("CalcBenchExpA")
    results = player.play(plan_of(spec))
    said = [turn for result in results.values() for turn in result.trajectory.turns if isinstance(turn.action, str)]
    assert any("\ufffd" in turn.action for turn in said) and player.edited == 0
    assert all(turn.action == chat.decode(turn.token_ids) for turn in said)


@pytest.mark.parametrize(
    "env_id, tokenizer", [("SortExpA", "words"), ("CountdownExpA", "words"), ("CalcBenchExpA", "bytes")]
)
def test_a_demonstration_is_what_the_policy_should_do(env_id, tokenizer):
    chat = chat_of(env_id, tokenizer)
    env = gym.make(f"agent_envs:agent_envs/{env_id}-v0")
    vocabulary = len(chat.tokenizer)
    words = ExpandedChat(chat, vocabulary_rows(env, chat, vocabulary))
    for task in range(4):
        trajectory = solved(env, task)
        sequence = words.sequence(env, trajectory)
        prompt = len(chat.open(trajectory.prompt).ids)
        places = decisions(sequence)
        assert places[0] == prompt and sequence.ids[-1] == sequence.targets[-1] == chat.end_ids[0]
        assert chat.decode(sequence.ids[prompt:]) == core_of(env).history
        chosen = [sequence.targets[place] - vocabulary + 1 for place in places if sequence.targets[place] >= vocabulary]
        assert chosen == [turn.action for turn in trajectory.turns if turn.action and isinstance(turn.action, int)]
        assert max(sequence.ids) < vocabulary and not any(sequence.logprobs)
        for place in places:
            legal, target = sequence.legal[place], sequence.targets[place]
            assert target - vocabulary + 1 in legal or (0 in legal and target < vocabulary)
        assert max(sequence.turns) == len(trajectory.turns)


def test_texts_of_demonstrations_may_be_in_any_script_and_spell_control_tokens():
    chat = chat_of("SortExpA", "bytes")
    env = gym.make("agent_envs:agent_envs/SortExpA-v0", size=2)
    words = ExpandedChat(chat, vocabulary_rows(env, chat, len(chat.tokenizer)))
    env.reset(seed=0, options={"task": 0, "split": "train", "episode_key": "e"})
    for action in (" naïve 数 🙂<|im_end|>", 1, 4, "nothing here", 3, 0):
        env.step(action)
    sequence = words.sequence(env, core_of(env).trajectory)
    assert sum(token == chat.end_ids[0] for place, token in enumerate(sequence.ids) if sequence.legal[place]) == 1
    said = chat.decode([sequence.ids[place] for place in decisions(sequence) if sequence.turns[place] == 1])
    assert said == " naïve 数 🙂< |im_end|>"
    assert set(sequence.turns) == {0, 1, 2, 3, 5, 6}, "what was refused is no decision"


def test_a_fault_stays_in_its_episode(monkeypatch):
    player, _, _, spec = made("SortExpA", dtype=torch.float64)
    plan = plan_of(spec)
    whole = player.play(plan)
    sound = {item.key: player.sequences(item.key)[0] for item in plan}
    advance, begin = ExpandedActionEnv._advance, ExpandedActionEnv._begin

    def failing(env, episode, action):
        if episode.key == plan[2].key:
            raise EnvFault("the service is down")
        return advance(env, episode, action)

    def failing_at_once(env, task, key):
        if key == plan[5].key:
            raise EnvFault("no service")
        return begin(env, task, key)

    monkeypatch.setattr(ExpandedActionEnv, "_advance", failing)
    monkeypatch.setattr(ExpandedActionEnv, "_begin", failing_at_once)
    results = player.play(plan)
    for item in plan:
        result = results[item.key]
        if item in (plan[2], plan[5]):
            assert result.status == "fault" and result.fault in ("the service is down", "no service")
            assert result.trajectory.turns == () and result.trajectory.header.episode_key == item.key
            assert player.rebuild(result.trajectory) == []
        else:
            assert actions(result) == actions(whole[item.key])
            assert told_alike(player.sequences(item.key)[0], sound[item.key])
    assert player.sequences(plan[5].key) == []


def test_what_cannot_be_played_is_refused_in_one_line():
    player, _, chat, spec = made("SortExpA")
    plan = plan_of(spec)
    with pytest.raises(UsageError, match="keys repeat"):
        player.play([plan[0], plan[0]])
    for name, why in (("CountdownExpA", "not those of the model's expanded head"), ("Sort", "has no expanded actions")):
        with pytest.raises(UsageError, match=why):
            player.play(plan_of(spec_json(gym.make(f"agent_envs:agent_envs/{name}-v0"))))
    memory = spec_json(Memory(gym.make("agent_envs:agent_envs/SortExpA-v0", size=3), turns=1))
    with pytest.raises(UsageError, match="no wrapper that replaces"):
        player.play(plan_of(memory))
    with pytest.raises(UsageError, match="has no expanded head"):
        ExpandedPlayer(tiny_model(chat.tokenizer), chat, Sampling())
    with pytest.raises(UsageError, match="has not played"):
        made("SortExpA")[0].rebuild(player.play(plan[:1])[plan[0].key].trajectory)


def test_fewer_items_are_played_with_the_same_head_and_more_are_refused():
    """A curriculum from fewer items to more: their actions are the first of the head's."""
    player, _, _, _ = made("SortExpA", size=3)
    fewer, more = (
        spec_json(gym.make("agent_envs:agent_envs/SortExpA-v0", size=size, max_actions=20)) for size in (2, 4)
    )
    plan = plan_of(fewer)
    turns = [turn for result in player.play(plan).values() for turn in result.trajectory.turns]
    keyed = {turn.action for turn in turns if isinstance(turn.action, int)}
    assert keyed <= {0, 1, 2, 3, 4} and keyed & {3, 4}, "end, compare, swap, A, B"
    with pytest.raises(UsageError, match="not those of the model's expanded head"):
        player.play(plan_of(more))


def test_a_cache_that_grows_and_rows_that_leave_change_nothing():
    """More tokens than the cache has room for at first, while rows end at different times."""
    choices = {"size": 3, "dtype": torch.float64, "max_actions": 40, "ending": 0.3}
    player, model, _, spec = player_for("SortExpA", limits={"max_new_tokens": 400, "batch": 12}, **choices)
    plan = plan_of(spec, tasks=4)
    player.play(plan)
    lengths = {len(player.sequences(item.key)[0].ids) for item in plan}
    assert len(lengths) > 4 and max(lengths) - min(lengths) > 256
    for item in plan:
        (sequence,) = player.sequences(item.key)
        told = torch.tensor([sequence.logprobs[place] for place in decisions(sequence)], dtype=torch.float64)
        assert torch.allclose(told, scored(model, sequence, torch.float64)[0], atol=1e-9, rtol=0)


def test_lora_plays_as_its_merged_model_does():
    import peft

    base, chat, spec = model_for("SortExpA", size=3, dtype=torch.float64)
    rows = head_of(base).rows
    del base.expanded_head
    torch.manual_seed(0)
    config = peft.LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
    model = peft.get_peft_model(base, config).to(torch.float64)
    attach_head(model, rows)
    found = []
    for merged in (False, True):
        if merged:
            model = model.merge_and_unload()
            attach_head(model, rows)
        player = ExpandedPlayer(model, chat, Sampling(), max_new_tokens=30)
        player.play(plan_of(spec))
        found.append([player.sequences(item.key)[0] for item in plan_of(spec)])
    assert all(told_alike(*pair) for pair in zip(*found, strict=True))
