"""Of verifiers 0.4.0: what the adapter touches."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

T, S, C = TypeVar("T"), TypeVar("S"), TypeVar("C")


class State(BaseModel):
    pass


class TaskConfig(BaseModel):
    pass


class TasksetConfig(BaseModel):
    id: str = ""
    task: TaskConfig = TaskConfig()


class AgentConfig(BaseModel):
    pass


class EnvConfig(BaseModel):
    taskset: TasksetConfig = TasksetConfig()


class TaskData(BaseModel):
    name: str | None = None
    prompt: Any = None


class Task(Generic[T, S, C]):
    def __init__(self, data, config=None):
        self.data, self.config = data, config


class Taskset(ABC, Generic[T, C]):
    def __init__(self, config):
        self.config = config

    @abstractmethod
    def load(self): ...


class Env(ABC, Generic[C]):
    @abstractmethod
    async def run(self, task, agents): ...


def load_environment(config):
    from importlib import import_module

    module = import_module(config["taskset"]["id"])
    env = object.__new__(module.TurnEnv)
    kind = module.Taskset.__orig_bases__[0].__args__[1]
    env.taskset = module.Taskset(kind(**config["taskset"]))
    return env


class ToolCall(BaseModel):
    id: str
    name: str
    arguments: str


class AssistantMessage(BaseModel):
    content: str | None = None
    tool_calls: list[ToolCall] | None = None


@dataclass(frozen=True)
class Segment:
    messages: list
    root_reply: str | None = None
    terminated: bool = False


class Interaction:
    async def turn(self, message=None): ...


class Agent:
    def interaction(self, task): ...


class Trace(BaseModel):
    rewards: dict[str, Any] = {}
    metrics: dict[str, float] = {}
    info: dict[str, Any] = {}

    @property
    def reward(self):
        return sum(self.rewards.values())

    def record_reward(self, name, value, weight=1.0):
        self.rewards[name] = value * weight

    def record_metrics(self, values):
        self.metrics.update(values)
