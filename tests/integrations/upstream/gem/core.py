from abc import ABC, abstractmethod


class Env(ABC):
    @abstractmethod
    def step(self, action): ...

    @abstractmethod
    def reset(self, seed=None): ...

    def sample_random_action(self):
        raise NotImplementedError

    def spawn(self, same_state=False, **kwargs):
        raise NotImplementedError
