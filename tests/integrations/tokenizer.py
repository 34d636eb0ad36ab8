"""A tokenizer of bytes with a planted pair: "se" is one token, too, so that encoding a text again may give other ids."""

EOS, PAIR = 256, 257
NAMES = {EOS: "<|im_end|>", PAIR: "se", 258: "<|im_start|>"}


class PlantedTokenizer:
    """ChatML over bytes; `encode` prefers the pair, and `apart` never takes it."""

    eos_token, eos_token_id, pad_token_id = "<|im_end|>", EOS, 259

    def __call__(self, text, add_special_tokens=True):
        return {"input_ids": self.encode(text)}

    def encode(self, text, pair=True, add_special_tokens=False):
        ids, rest = [], text
        while rest:
            for number, name in NAMES.items():
                if rest.startswith(name) and (pair or number != PAIR):
                    ids.append(number)
                    rest = rest[len(name) :]
                    break
            else:
                ids += rest[0].encode("utf-8", "surrogatepass")
                rest = rest[1:]
        return ids

    def decode(self, ids, skip_special_tokens=False):
        parts = b""
        for number in ids:
            if number < 256:
                parts += bytes([number])
            elif not (skip_special_tokens and number != PAIR):
                parts += NAMES[number].encode()
        return parts.decode("utf-8", "replace")

    def apply_chat_template(self, messages, tools=None, tokenize=True, add_generation_prompt=False, **others):
        head = f"<|im_start|>tools\n{len(tools)}<|im_end|>\n" if tools else ""
        rows = (f"<|im_start|>{row['role']}\n{row['content']}<|im_end|>\n" for row in messages)
        text = head + "".join(rows) + ("<|im_start|>assistant\n" if add_generation_prompt else "")
        return self.encode(text) if tokenize else text

    def convert_tokens_to_ids(self, token):
        return next((number for number, name in NAMES.items() if name == token), None)
