import asyncio
import json
from contextlib import contextmanager

from openenv.core.env_server.types import ConcurrencyConfig as ConcurrencyConfig


def create_app(env, action_cls, observation_cls, env_name=None, max_concurrent_envs=None, concurrency_config=None):
    app = _App(env, action_cls)
    app.limits = concurrency_config
    return app


class _App:
    def __init__(self, env, action_cls):
        self.env, self.action_cls = env, action_cls

    @contextmanager
    def opened(self):
        socket = _Socket(self.env(), self.action_cls)
        yield socket
        socket.env.close()


class _Socket:
    """Answers as the server does: the observation as JSON, reward and done beside it."""

    def __init__(self, env, action_cls):
        self.env, self.action_cls = env, action_cls

    def send_json(self, message):
        data = json.loads(json.dumps(message["data"]))
        if message["type"] == "reset":
            seen = asyncio.run(self.env.reset_async(**data))
        else:
            seen = asyncio.run(self.env.step_async(self.action_cls(**data)))
        body = json.loads(seen.model_dump_json(exclude={"reward", "done"}))
        self.answer = {"observation": body, "reward": seen.reward, "done": seen.done}

    def receive_json(self):
        return {"type": "observation", "data": self.answer}
