"""A server of chat completions as people start one at home: each of its ways to surprise an agent is an argument."""

import json


class LocalServer:
    """A handler for a server; it keeps the bodies of calls. A token is a word."""

    def __init__(
        self, say="<answer>x</answer>", *, finish="stop", models=("m",), context=0, refusal="", shows_tools=True, counts=True,
        continues=True, listing=None, **message,
    ):  # fmt: skip
        """Set what it says and how.

        Args:
            say: the text of every reply, or a function of the request's body.
            finish: every reply's `finish_reason`.
            models: what `/v1/models` lists; `listing` are further fields of each.
            context: the longest prompt, 0 for any; a longer one is refused in the words of `refusal`.
            shows_tools: whether the chat template has a place for them; None: a request with tools is refused.
            counts: whether replies have a `usage`.
            continues: whether it goes on from a last message of the assistant's, "echo": and repeats it in its reply.
            message: further fields of a reply's message.
        """
        self.say, self.finish, self.models, self.listing = say, finish, models, listing or {}
        self.context, self.refusal, self.shows_tools, self.counts = context, refusal, shows_tools, counts
        self.continues, self.message, self.bodies = continues, message, []

    def __call__(self, path, headers, body):
        if path.endswith("/models"):
            return self.reply(200, {"data": [{"id": name, **self.listing} for name in self.models]})
        if path == "/props":
            return self.reply(200, {"default_generation_settings": {"n_ctx": self.context}})
        value = json.loads(body)
        self.bodies.append(value)
        if not {value["model"], f"{value['model']}:latest"} & {*self.models, *self.listing.get("aliases", ())}:
            return self.reply(404, {"error": {"message": "no such model"}})
        if value.get("tools") and self.shows_tools is None:
            return self.reply(400, {"error": {"message": "tool choice requires a parser"}})
        size = self.size(value)
        if self.context and size > self.context:
            return self.reply(400, self.refusal % {"prompt": size, "context": self.context})
        text = self.say(value) if callable(self.say) else self.say
        last = value["messages"][-1]
        if last["role"] == "assistant" and self.continues == "echo":
            text = last["content"] + text
        answer = {"choices": [{"message": {"content": text, **self.message}, "finish_reason": self.finish}]}
        if self.counts:
            answer["usage"] = {"prompt_tokens": size, "completion_tokens": len((text or "").split())}
        return self.reply(200, answer)

    def size(self, value):
        """Count the tokens of a prompt: 3 around each message, none behind one that is gone on from."""
        words = sum(len(message["content"].split()) + 3 for message in value["messages"])
        if value["messages"][-1]["role"] == "assistant" and self.continues:
            words -= 3
        return words + (len(json.dumps(value.get("tools", "")).split()) if self.shows_tools else 0)

    @staticmethod
    def reply(status, value):
        data = value if isinstance(value, str) else json.dumps(value)
        return status, {"content-type": "application/json"}, data.encode()
