import random
import re
import sys

import gymnasium as gym
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from agent_envs.base.errors import UsageError
from agent_envs.core.env import core_of
from agent_envs.datasets.world import closed_vocabulary
from agent_envs.envs.expa.sorting.env import Order
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy
from tests.examples import examples
from tests.trainers.players import WORLD
from trainers.environments import spread_task
from trainers.tiny.fitting import environment_tokenizer, settled_runs, shared_runs, texts_of, without_tags
from trainers.tiny.models import END, JOINED, PAD, SPACE, START, byte_tokenizer, tiny_model, word_tokenizer

SEARCH = {"top_k": 1, "max_generations": 4, "world": {**WORLD, "distractors": 0.0}}
SAMPLE = 'Who wrote "The Lost Map"? <search>The Lost Map novel</search>\n\nDoc 12(Title: "x") a, b.'
TEXTS = st.text(st.characters(exclude_characters=SPACE + JOINED, exclude_categories=("Cs",)), max_size=60)
FRAGMENTS = """Lost lost <search> </search> < > / 12 x_1 's ( ) . é 日本 Map""".split()
PIECES = st.lists(st.sampled_from([" ", "  ", "\n", "\t", "user\n", "The Lost Map", *FRAGMENTS]), max_size=12)


@pytest.fixture(scope="module")
def searching():
    return environment_tokenizer("SearchQA", **SEARCH)


def encoded(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


def tokens(tokenizer, text):
    return tokenizer.convert_ids_to_tokens(encoded(tokenizer, text))


@pytest.mark.parametrize("digits", [False, True])
def test_every_text_comes_back(digits):
    tokenizer = word_tokenizer([SAMPLE], phrases=["The Lost Map", "Doc 1", "\n\nDoc"], digits=digits)

    @given(TEXTS | PIECES.map("".join))
    @examples(300)
    def holds(text):
        assert tokenizer.decode(encoded(tokenizer, text)) == text

    holds()


@given(TEXTS)
@example(f"{START}user\nhi{END}{PAD}{END[:-1]}\u00e4")
@examples(200)
def test_bytes_bring_every_text_back(text):
    """A token is a byte, or a whole mark of a message, as in every chat tokenizer."""
    tokenizer = byte_tokenizer()
    assert tokenizer.decode(encoded(tokenizer, text)) == text
    parts = re.split("|".join(map(re.escape, (START, END, PAD))), text)
    assert len(encoded(tokenizer, text)) == sum(len(part.encode()) for part in parts) + len(parts) - 1


def test_a_word_is_one_token_and_the_same_wherever_it_stands():
    tokenizer = word_tokenizer([SAMPLE])
    lost = tokenizer.convert_tokens_to_ids(SPACE + "Lost")
    assert lost is not None and lost < len(tokenizer)
    for text in ("Lost", " Lost", "<search>Lost", "The Lost Map", '"Lost"', "(Lost)"):
        assert encoded(tokenizer, text).count(lost) == 1, text
    assert tokens(tokenizer, "<search>The Lost Map</search>") == [
        "<search>" + JOINED, SPACE + "The", SPACE + "Lost", SPACE + "Map", "</search>",
    ]  # fmt: skip


def test_words_of_a_list_make_a_vocabulary():
    tokenizer = word_tokenizer(closed_vocabulary())
    words = [word for word in closed_vocabulary() if word.isalnum()]
    assert tokens(tokenizer, "x " + " ".join(words))[-len(words) :] == [SPACE + word for word in words]


def test_numbers_are_words_or_digits():
    assert tokens(word_tokenizer(["in 1984"]), " 1984") == [SPACE + "1984"]
    assert tokens(word_tokenizer(["in 1984"], digits=True), " 2075") == [SPACE, "2", "0", "7", "5"]


def test_a_phrase_is_one_token_and_never_ends_within_a_word():
    tokenizer = word_tokenizer(["What is missing is missingness."], phrases=["is missing", "What is"])
    assert tokens(tokenizer, "What is missing") == [JOINED + f"{SPACE}What{SPACE}is", SPACE + "missing"]
    assert tokens(tokenizer, " is missing.") == [f"{SPACE}is{SPACE}missing", "."]
    assert tokens(tokenizer, " is missingness")[-1] == SPACE + "missingness"


def test_special_tokens_are_single_and_drop_out():
    for tokenizer in (word_tokenizer([SAMPLE]), byte_tokenizer()):
        ids = encoded(tokenizer, f"{START}user\nLost{END}\n")
        assert tokenizer.decode(ids, skip_special_tokens=True) == "user\nLost\n"
        assert ids.count(tokenizer.eos_token_id) == 1
        assert (tokenizer.pad_token, tokenizer.eos_token) == (PAD, END)
    assert tokens(word_tokenizer([SAMPLE]), f"{START}user\nLost")[1:] == [
        f"{JOINED}{SPACE}user\n{JOINED}",
        SPACE + "Lost",
    ]


def test_a_saved_tokenizer_reads_the_same(tmp_path, searching):
    searching.tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert encoded(again, SAMPLE) == encoded(searching.tokenizer, SAMPLE)
    assert again.decode(encoded(again, SAMPLE)) == SAMPLE


def test_search_in_a_closed_world_is_words_and_short(searching):
    assert searching.kind == "words" and searching.coverage["words"] > 0.999
    tokenizer = searching.tokenizer
    env = gym.make("agent_envs:agent_envs/SearchQA-v0", **SEARCH)
    lengths = []
    for number in range(30):
        for kind in ("solver", "random"):
            played = run_episode(env, CompanionPolicy(kind), seed=number, split="test").trajectory
            for text in texts_of(played):
                assert tokenizer.decode(encoded(tokenizer, text)) == text
            if kind == "solver":
                lengths.append(sum(len(encoded(tokenizer, text)) for text in texts_of(played)))
        assert len(encoded(tokenizer, played.prompt[0].content)) < 40
    assert sum(lengths) / len(lengths) < 100


def test_the_same_plays_make_the_same_tokenizer():
    made = [environment_tokenizer("Order", plays=32) for _ in range(2)]
    assert made[0].tokenizer.get_vocab() == made[1].tokenizer.get_vocab()
    assert made[0].phrases == made[1].phrases


def test_a_tokenizer_knows_the_words_of_further_arguments_of_the_same_id():
    """A curriculum may play fewer items of the same id first: its prompts are no bytes then."""
    alone = environment_tokenizer("Sort", plays=16, size=3).tokenizer
    both = environment_tokenizer("Sort", plays=16, size=3, others=[("Sort", {"size": 2})]).tokenizer
    for size in (2, 3):
        prompt, _ = gym.make("agent_envs:agent_envs/Sort-v0", size=size).reset(seed=0)
        assert len(encoded(both, prompt)) < 40
    prompt, _ = gym.make("agent_envs:agent_envs/Sort-v0", size=2).reset(seed=0)
    assert len(encoded(alone, prompt)) > 40


class AloneSource:
    """A source with a test split and no other."""

    splits = ("test",)

    def __init__(self, source):
        self._source = source
        self.name, self.digest = source.name, source.digest

    def size(self, split):
        return self._source.size({"test": "test"}[split])

    def get(self, split, key):
        return self._source.get({"test": "test"}[split], key)


class OrderTestedAlone(Order):
    """Order without tasks to train on."""

    def __init__(self, *, render_mode=None):
        super().__init__(render_mode=render_mode)
        self.source = AloneSource(self.source)


gym.register("tested/Alone-v0", entry_point=OrderTestedAlone)


def test_an_environment_without_a_train_split_has_a_tokenizer_too():
    made = environment_tokenizer("tested/Alone-v0", plays=16)
    assert made.tokenizer.get_vocab() and made.coverage


def test_a_tokenizer_says_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    environment_tokenizer("Order", plays=8)
    told = capsys.readouterr().err.replace("\x1b[K", "")
    assert "\rtokenizer for Order: playing 50 %\r" in told
    assert told.endswith("tokenizer for Order: vocabulary, words 100 %\n")


@pytest.mark.parametrize(
    ("env_id", "arguments", "kind"),
    [("Sort", {}, "words"), ("CalcBench", {}, "digits"), ("SearchQA", {"max_generations": 2}, "digits")],
)
def test_the_kind_follows_what_held_out_tasks_need(env_id, arguments, kind):
    chosen = environment_tokenizer(env_id, plays=64, **arguments)
    assert chosen.kind in (kind, "bytes") if env_id == "SearchQA" else chosen.kind == kind
    assert list(chosen.coverage) == ["words", "digits"][: len(chosen.coverage)]


def test_what_expanded_actions_append_is_learnt_as_words():
    made = environment_tokenizer("SortExpA", plays=64, size=3)
    known = made.tokenizer.get_vocab()
    assert made.kind == "words" and made.coverage["words"] == 1.0
    for text in (" compare", " swap", " A", " B", " C"):
        assert len(made.tokenizer.encode(text, add_special_tokens=False)) == 1, text
    assert all(token in known for token in made.tokenizer.tokenize(" compare A and B: A < B\n"))


def test_runs_that_all_share_and_runs_without_a_choice():
    rows = [list("abcdXefg"), list("abcdYefg"), list("abcdZefg")]
    assert shared_runs(rows) == [tuple("abcd"), tuple("efg")]
    assert shared_runs([list("ab")]) == []
    said = [list("qab1cdef"), list("qab2cdef")] * 5
    runs = settled_runs(said)
    assert set(runs) == {tuple("qab"), tuple("1cdef"), tuple("2cdef")}


def test_tasks_are_spread_and_few_start_again():
    source = core_of(gym.make("agent_envs:agent_envs/SearchQA-v0", **SEARCH)).source
    numbers = [spread_task(source, "train", number) for number in range(500)]
    assert len(set(numbers)) == 500
    assert len({source.get("train", number).cluster for number in numbers[::3]}) == 32 * 2

    class Three:
        def size(self, split):
            return 3

        def get(self, split, key):
            return [10, 11, 12][key]

    assert [spread_task(Three(), "train", number) for number in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_a_model_is_the_same_for_the_same_seed_and_leaves_the_generator_alone():
    tokenizer = word_tokenizer([SAMPLE])
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    one, two, other = (tiny_model(tokenizer, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), wanted)
    for (name, first), second, third in zip(one.named_parameters(), two.parameters(), other.parameters(), strict=True):
        assert torch.equal(first, second), name
        assert first.dim() == 1 or not torch.equal(first, third), name


def test_a_model_fits_its_tokenizer():
    tokenizer = word_tokenizer([SAMPLE])
    model = tiny_model(tokenizer)
    assert model.config.vocab_size == len(tokenizer)
    assert (model.config.eos_token_id, model.config.pad_token_id) == (tokenizer.eos_token_id, tokenizer.pad_token_id)
    logits = model(input_ids=torch.tensor([encoded(tokenizer, SAMPLE)])).logits
    assert logits.shape[-1] == len(tokenizer) and torch.isfinite(logits).all()
    assert model.lm_head.weight.data_ptr() != model.model.embed_tokens.weight.data_ptr()
    tied = tiny_model(tokenizer, tied=True)
    assert tied.lm_head.weight.data_ptr() == tied.model.embed_tokens.weight.data_ptr()


def test_a_model_computes_and_learns_as_qwen2_does():
    """Llama's name is for `AutoTokenizer`'s sake: its fourth bias, which Qwen2 lacks, never moves."""
    tokenizer = word_tokenizer([SAMPLE])
    model = tiny_model(tokenizer, seed=1)
    shape = {name: getattr(model.config, name) for name in Qwen2Config().to_dict() if hasattr(model.config, name)}
    other = Qwen2ForCausalLM(Qwen2Config(**{**shape, "model_type": "qwen2", "architectures": None}))
    other.load_state_dict({n: p for n, p in model.state_dict().items() if "o_proj.bias" not in n})
    ids = torch.tensor([encoded(tokenizer, SAMPLE)])
    for one in (model, other):
        optimiser = torch.optim.SGD([p for p in one.parameters() if p.requires_grad], lr=0.1)
        for _ in range(2):
            optimiser.zero_grad()
            one(input_ids=ids, labels=ids).loss.backward()
            optimiser.step()
    assert torch.equal(model(input_ids=ids).logits, other(input_ids=ids).logits)
    assert not any(p.any() for name, p in model.named_parameters() if name.endswith("o_proj.bias"))


def test_a_new_model_looks_for_its_own_token_and_passes_it_on():
    tokenizer = word_tokenizer(closed_vocabulary())
    model = tiny_model(tokenizer)
    text = " ".join(random.Random("copy").sample([word for word in closed_vocabulary() if word.isalpha()], 40))
    ids = torch.tensor([encoded(tokenizer, text)])
    likeliest = model(input_ids=ids).logits.argmax(-1)
    assert (likeliest == ids).float().mean() > 0.5


def test_an_unknown_size_is_named():
    with pytest.raises(UsageError, match="'9b'; the sizes are tiny"):
        tiny_model(byte_tokenizer(), "9b")


def test_what_a_counterfactual_forces_is_a_token_of_its_own():
    """Else the tag that is forced is one that the policy has never seen: its demonstrations hold it within a phrase."""
    call, tag = "The next value is <calculator>4-6</calculator>", "<calculator>"
    arguments = {"numbers": 2, "digits": 1, "env_prompt": False, "max_generations": 4}
    merged = environment_tokenizer("Countdown", plays=64, **arguments)
    apart = environment_tokenizer("Countdown", plays=64, tags_apart=True, **arguments)
    assert not any(piece.strip(JOINED) == tag for piece in tokens(merged.tokenizer, call))
    pieces = tokens(apart.tokenizer, call)
    assert encoded(apart.tokenizer, tag) == [encoded(apart.tokenizer, call)[pieces.index(tag)]]
    assert apart.tokenizer.decode(encoded(apart.tokenizer, call)) == call
    assert not any(tag in phrase for phrase in apart.phrases) and "Every value is known" in "".join(apart.phrases)


def test_constant_texts_are_cut_at_tags():
    texts = ["The next value is <sum>", "<sum>", "Known. <sum>one", " is <sort>a b", "so"]
    assert without_tags(texts, ["<sum>", "<sort>"]) == ["The next value is ", "a b", "so"]
    assert without_tags(texts, []) == texts
