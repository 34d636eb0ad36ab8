"""A release has one version in every place, a site that leaves no page out, and links that lead somewhere."""

import importlib
import importlib.util
import re

import pytest

from docs import build_site
from tests import ROOT
from tests.needs import needs

SPEC = importlib.util.spec_from_file_location("release_check", ROOT / ".ci" / "release_check.py")
release_check = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(release_check)


def test_the_version_is_the_same_in_every_place():
    assert release_check.check_versions("").startswith("version ")


@pytest.mark.parametrize("name", ["agent_envs/base/version.py", "CITATION.cff", "CHANGELOG.md", "pyproject.toml"])
def test_a_version_that_differs_is_named(name, monkeypatch, tmp_path):
    for place in ("agent_envs/base/version.py", "CITATION.cff", "CHANGELOG.md", "pyproject.toml"):
        text = (ROOT / place).read_text(encoding="utf-8")
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text.replace("0.1.0", "9.9", 1) if place == name else text, encoding="utf-8")
    monkeypatch.setattr(release_check, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=r"9\.9"):
        release_check.check_versions("")


def test_another_release_than_the_checkout_is_refused():
    with pytest.raises(ValueError, match=r"the release is 3\.0"):
        release_check.check_versions("3.0")


def test_every_page_is_in_the_sites_navigation():
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    navigation = [page for section in build_site.PAGES.values() for page in section]
    assert sorted(navigation) == sorted(pages - {"environments"})  # which leads its own section


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("docs/guide.md", "[a](tau2.md#users)", "[a](tau2.md#users)"),
        ("docs/guide.md", "[a](../agent_envs/core/env.py)", "[a](R/blob/main/agent_envs/core/env.py)"),
        ("docs/environments/Sort.md", "![a](../images/x.svg)", "![a](../images/x.svg)"),
        ("docs/scale.md", "![a](../benchmarks/results/growth.svg)", "![a](images/growth.svg)"),
        ("docs/environments/Sort.md", "[a](../guide.md)", "[a](../guide.md)"),
        ("README.md", "[a](docs/guide.md)", "[a](guide.md)"),
        (
            "README.md",
            "[a](docs/images/view_dark.png) [b](LICENSE)",
            "[a](images/view_dark.png) [b](R/blob/main/LICENSE)",
        ),
        (".github/CONTRIBUTING.md", "[a](../docs/data.md)", "[a](data.md)"),
        ("README.md", "[a](https://x.org/y.md) [b](#licence)", "[a](https://x.org/y.md) [b](#licence)"),
    ],
)
def test_a_link_leads_to_its_page_or_to_the_repository(name, text, expected):
    places = {path.relative_to(ROOT).as_posix(): place for path, place in build_site.pages_of_the_site().items()}
    assert build_site.LINK.sub(lambda link: build_site.site_link(link, name, places, "R"), text) == expected


@pytest.mark.parametrize("package", build_site.PUBLIC)
def test_the_reference_has_every_public_name(package):
    short = build_site.PUBLIC[package]
    module = importlib.import_module(f"agent_envs.{short}" if short else "agent_envs")
    assert build_site.public_names(package) == list(module.__all__)
    page = build_site.reference()
    assert f"## `{module.__name__}`" in page and all(f".{name}\n" in page for name in module.__all__)


def test_the_reference_has_every_short_path():
    paths = {path.stem for path in (ROOT / "agent_envs").glob("[!_]*.py")}
    assert paths <= set(build_site.PUBLIC.values())


def test_pypis_page_has_no_relative_link(tmp_path):
    """The rules that pyproject has for it, as the build applies them."""
    project = release_check.tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for rule in project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    home = project["project"]["urls"]["Homepage"]
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    inside = [re.sub(r"^.*?/main/|#.*", "", target) for target in targets if f"{home}/blob/" in target]
    assert len(inside) > 30 and all(target.startswith(("https://", "#")) for target in targets)
    assert [target for target in inside if not (ROOT / target).exists()] == []


@pytest.mark.heavy
@needs("network")
def test_the_site_is_built_from_every_page(tmp_path):
    release_check.subprocess.run(["make", "docs"], cwd=ROOT, check=True, capture_output=True)
    html = ROOT / "build" / "site" / "html"
    assert (html / "search.js").exists() and "EpisodePool" in (html / "api.html").read_text(encoding="utf-8")
    places = build_site.pages_of_the_site().values()
    assert [place for place in places if not (html / place).with_suffix(".html").exists()] == []
