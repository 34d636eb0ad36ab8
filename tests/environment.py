"""The suite's environment: what a shell sets for other programs is cleared before a test, or a process of one, can read it."""

import os
import re
import signal
import sys
import time

import pytest

# Caches and switches of libraries, keys and servers of providers, proxies, the interpreter, language and time zone, the
# terminal, what make, git and pytest say to their children, and all settings of ours.
CLEARED = re.compile(
    r"(AGENT_ENVS|HF|HUGGINGFACE|HUGGING_FACE|TRANSFORMERS|DATASETS|SENTENCE_TRANSFORMERS|TOKENIZERS|ACCELERATE|WANDB|VLLM"
    r"|PYTORCH|CUDA|OMP|MKL|KMP|OPENAI|ANTHROPIC|PYTHON|XDG|LC|GIT|HYPOTHESIS|MPL|COVERAGE|COV|PYTEST|MAKE|MASTER|LOCAL)_?.*"
    r"|TORCH.*|LANG|LANGUAGE|TZ|.*_proxy|.*_PROXY|NO_COLOR|FORCE_COLOR|CLICOLOR.*|COLORTERM|COLUMNS|LINES|TERM"
    r"|SSL_CERT_.*|SSLKEYLOGFILE|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|MFLAGS|GNUMAKEFLAGS|CI|DEBUG|PAGER|EDITOR|VISUAL|BROWSER|BASH_ENV|CDPATH|SOURCE_DATE_EPOCH|WORLD_SIZE|RANK"
)
# What `tests.needs`, the heavy tests, `tests.integrations.real` and pytest's own processes are told.
KEPT = re.compile(r"AGENT_ENVS_(DATA|HOSTS|TESTS_.*)|VLLM_VENV|PYTEST_(CURRENT_TEST|VERSION|XDIST_.*)")


def clear() -> None:
    """Clear the environment; the workers of pytest-xdist and the processes of tests inherit it.

    Raises:
        pytest.UsageError: Python drops the asserts, so that no test could fail.
    """
    if sys.flags.optimize:
        raise pytest.UsageError("python -O drops the asserts: play the tests without -O and PYTHONOPTIMIZE")
    for name in list(os.environ):
        if CLEARED.fullmatch(name) and not KEPT.fullmatch(name):
            del os.environ[name]
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # nohup, or a shell's "&": processes of tests would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["TZ"] = "UTC"
    if hasattr(time, "tzset"):
        time.tzset()
