"""Of skyrl-gym 0.4.0: what the adapter touches."""

from skyrl_gym.envs.registration import make, register

__all__ = ["make", "register"]
