"""Of gem-llm 0.1.0: what the adapter touches."""

from gem.core import Env
from gem.envs.registration import make, make_vec, register

__all__ = ["Env", "make", "make_vec", "register"]
