"""Two tokenizers, chat templates that do what real ones do, and a policy that says what a script holds."""

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from agent_envs.rollout.policy import Reply

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
)
END = {"chatml": "<|im_end|>", "qwen": "<|im_end|>", "llama": "<|eot_id|>"}
SCHEMA = {
    "type": "function",
    "function": {
        "name": "seek",
        "description": "Seeks.",
        "parameters": {"type": "object", "properties": {"goal": {"type": "string"}}},
    },
}
CORPUS = (
    """system\nuser\nassistant\ntool\nipython\n\n\n<search>the harbour town of the north</search>\n\n
<information>Doc 1(Title: the town) the town is in the north, the harbour is in the town.\n\n</information>
<think>the search says the harbour</think>\n<answer>the town</answer> compare swap sorted items smaller larger"""
    * 4
)


def _fast(backend, template, bos=False):
    backend.add_special_tokens(list(SPECIAL))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=END.get(template, "<|im_end|>"),
        pad_token="<|endoftext|>",
        **({"bos_token": "<|begin_of_text|>"} if bos or template == "llama" else {}),
    )
    return tokenizer


def bpe(template="chatml", **kind):
    """Bytes, with some merges, split as large models split text: line breaks stay together."""
    backend = Tokenizer(models.BPE())
    split = Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    pieces = [
        pre_tokenizers.Split(split, "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    backend.pre_tokenizer = pre_tokenizers.Sequence(pieces)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        [CORPUS], trainers.BpeTrainer(vocab_size=380, show_progress=False, initial_alphabet=alphabet)
    )
    return _fast(backend, template, **kind)


def words(template="chatml", extra=""):
    """Words, single characters of anything else, and `[UNK]`."""
    split = pre_tokenizers.Split(Regex(r"\s|[^\W_]+|[^\s\w]|_"), "isolated")
    pieces = {
        piece for piece, _ in split.pre_tokenize_str(f"{CORPUS} {extra} !?.,:;#'\"`{{}}[]()<>/|\\-_=+*0123456789")
    }
    vocabulary = {piece: place for place, piece in enumerate(["[UNK]", *sorted(pieces)])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = split
    backend.decoder = decoders.Fuse()
    return _fast(backend, template)


def metaspace(template="chatml"):
    """A tokenizer that puts a space before the first text of all, and takes it away when it decodes."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    backend.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
    backend.train_from_iterator([CORPUS], trainers.BpeTrainer(vocab_size=120, show_progress=False))
    return _fast(backend, template)


_BODY = "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
_PROMPT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"


def _loop(before="", body=_BODY, after=_PROMPT):
    return before + "{% for m in messages %}" + body + "{% endfor %}" + after


TEMPLATES = {
    "strips thoughts": _loop(
        body="{% set c = m.content %}{% if m.role == 'assistant' and not loop.last and '</think>' in c %}"
        "{% set c = c.split('</think>')[-1].lstrip('\n') %}{% endif %}"
        "{{ '<|im_start|>' + m.role + '\n' + c + '<|im_end|>\n' }}"
    ),
    "opens with a thought": _loop(
        body="{{ '<|im_start|>' + m.role + '\n' }}"
        "{% if m.role == 'assistant' and loop.last %}{{ '<think>\n\n</think>\n\n' }}{% endif %}"
        "{{ m.content + '<|im_end|>\n' }}"
    ),
    "rewrites calls": _loop(
        body="{% if m.tool_calls %}{{ '<|im_start|>assistant\n' }}{% for call in m.tool_calls %}"
        "{{ '[CALL]' + call.function.name + (call.function.arguments | tojson) }}{% endfor %}{{ '<|im_end|>\n' }}"
        "{% else %}" + _BODY + "{% endif %}"
    ),
    "writes a date": _loop(before="{{ '<|im_start|>system\n' + strftime_now('%d %b %Y') + '<|im_end|>\n' }}"),
    "has no system": _loop(
        before="{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}",
        body="{% if m.role != 'system' %}" + _BODY + "{% endif %}",
    ),
    "has no tool": _loop(body="{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}" + _BODY),
    "alternates": _loop(
        body="{% if m.role != ('user' if loop.index is odd else 'assistant') %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}" + _BODY
    ),
    "moves the system": _loop(
        body="{% if m.role == 'system' %}{% elif loop.last and m.role == 'user' %}"
        "{{ '<|im_start|>user\n' + (messages[0].content + '\n\n' if messages[0].role == 'system' else '') }}"
        "{{ m.content + '<|im_end|>\n' }}{% else %}" + _BODY + "{% endif %}"
    ),
    "trims": _loop(body="{{ '<|im_start|>' + m.role + '\n' + m.content | trim + '<|im_end|>\n' }}"),
    "has no prompt": _loop(after=""),
    "has no end": _loop(
        body="{{ m.role + ':\n' + m.content + '\n' }}", after="{% if add_generation_prompt %}assistant:\n{% endif %}"
    ),
    "ends after a space": _loop(
        body="{% if m.role == 'user' %}{{ '[' + m.content + ']' }}{% else %}{{ m.content + ' ' + eos_token }}{% endif %}",
        after="",
    ),
    "ends otherwise at the end": _loop(
        body="{{ '<|im_start|>' + m.role + '\n' + m.content }}"
        "{{ '<|eot_id|>' if loop.last and m.role == 'assistant' and not add_generation_prompt else '<|im_end|>' }}"
    ),
    "collects the system": _loop(
        before="{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}",
        body="{% if m.role != 'system' %}" + _BODY + "{% endif %}",
    ),
    "marks what is generated": _loop(
        body="{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
        "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{{ '<|im_end|>\n' }}"
    ),
}


class Scripted:
    """Plays a list of (text, how it ended), with tokens, and keeps the conversations that it played."""

    name = "scripted"
    batch = 1

    def __init__(self, chat, script):
        self.chat, self.script = chat, script
        self.conversations, self.texts = [], []
        self._seen = 0

    def act(self, requests):
        (request,) = requests
        if request.turn == 1 or request.context == "replace":
            self.conversations.append(self.chat.open(request.messages, request.tools))
        else:
            self.conversations[-1].observe(request.messages[self._seen + 1 :])
        self._seen = len(request.messages)
        conversation = self.conversations[-1]
        given = conversation.prefill(request.prefill)
        text, how = self.script[(request.turn - 1) % len(self.script)]
        ids = (*self.chat.codec.encode(text), *(self.chat.end_ids if how == "eos" else ()))
        logprobs = tuple(-0.25 * place - request.turn for place in range(len(ids)))
        conversation.append_sampled(ids, logprobs, request.turn)
        self.texts.append(request.prefill + self.chat.decode(ids))
        return [
            Reply(
                self.texts[-1],
                (*given, *ids),
                (*[0.0] * len(given), *logprobs),
                sampled=(False,) * len(given) + (True,) * len(ids) if given else (),
            )
        ]
