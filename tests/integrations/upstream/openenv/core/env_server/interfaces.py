from abc import ABC, abstractmethod


class Environment(ABC):
    SUPPORTS_CONCURRENT_SESSIONS = False

    def __init__(self, transform=None, rubric=None):
        self.transform, self.rubric = transform, rubric

    @abstractmethod
    def reset(self, seed=None, episode_id=None, **kwargs): ...

    async def reset_async(self, seed=None, episode_id=None, **kwargs):
        return self.reset(seed, episode_id, **kwargs)

    @abstractmethod
    def step(self, action, timeout_s=None, **kwargs): ...

    async def step_async(self, action, timeout_s=None, **kwargs):
        return self.step(action, timeout_s, **kwargs)

    @property
    @abstractmethod
    def state(self): ...

    def close(self):
        return None


class TaskProvider:
    def list_splits(self): ...

    def num_tasks(self, split): ...

    def get_task(self, split, index): ...
