"""The workflows of a board's repository: their shell steps are run here, with stand-ins for docker and gh."""

import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from agent_envs.evaluation.runs import run_folder
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.suites.suite import load_suite
from agent_envs.evaluation.verification.verify import How, verify
from agent_envs.rollout.policy import CompanionPolicy
from tests import ROOT

FILES = {name: (ROOT / "leaderboard" / "workflows" / f"{name}.yml").read_text() for name in ("verify", "comment")}
FLOWS = {name: yaml.safe_load(text) for name, text in FILES.items()}
STEPS = {f"{name} {step['name']}": step["run"] for name, flow in FLOWS.items() for job in flow["jobs"].values()
         for step in job["steps"] if "run" in step}  # fmt: skip
DOCKER = """#!/bin/bash
echo "$@" >> docker.log
[ "$1" = build ] && { cat > Dockerfile; exit 0; }
while [ "$1" != verifier ]; do shift; done; shift
exec "${@//\\/board/$PWD/board}" --jobs 1
"""
GH = """#!/bin/bash
case "$1 $2" in
  "pr view") echo "$THEIRS" ;;
  "pr diff") [ -z "$BROKEN" ] || exit 1; echo "${CHANGED:-submissions/a/manifest.json}" ;;
  "pr comment") echo "$3" > commented; cp "$5" comment.md ;;
  *) exit 9 ;;
esac
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """Return a submission of a small part of demo, and its id."""
    place = tmp_path_factory.mktemp("workflow")
    demo = load_suite("demo@1")
    suite = demo.part(tuple(item for item in demo.entries if item.label == "BabaIsAI-v0"))
    evaluate(suite, run_folder.Settings("random"), policy=CompanionPolicy("random"), folder=place / "run")
    pack_run(place / "run", place / "packed")
    return place / "packed", verify(place / "packed", How(suite, jobs=0)).submission


@pytest.fixture
def work(tmp_path):
    """Return a runner's folder with a board's repository in it, and a function that runs a step there."""
    (tmp_path / "bin").mkdir()
    for name, text in (("docker", DOCKER), ("gh", GH)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"

    def run(step, **given):
        env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "GIT_CONFIG_GLOBAL": "/dev/null", **given}
        return subprocess.run(["bash", "-eo", "pipefail", "-c", STEPS.get(step, step)], cwd=tmp_path, env=env,
                              capture_output=True, text=True, check=False)  # fmt: skip

    git = "git init -q board; cd board; git config user.name me; git config user.email me@example.org; mkdir boards"
    assert run(f"{git}; echo 'title = \"Demo\"' > boards/demo.toml; git add .; git commit -qm one").returncode == 0
    (tmp_path / "agent-envs").mkdir()
    return tmp_path, run, run("git -C board rev-parse HEAD").stdout.strip()


def commit(run):
    assert run("cd board; git add -A; git commit -qm two").returncode == 0


def test_a_pull_requests_submission_is_verified_and_its_table_commented(packed, work):
    source, name = packed
    place, run, base = work
    shutil.copytree(source, place / "board" / "submissions" / name)
    commit(run)
    for step in ("find", "image", "check"):
        end = run(f"verify {step}", BASE=base, NUMBER="7")
        assert end.returncode == 0, (step, end.stdout, end.stderr)
    assert "accepted: submission" in end.stdout and "BabaIsAI-v0" in (place / "report" / "verdict.txt").read_text()
    command = (place / "docker.log").read_text().splitlines()[-1]
    assert all(part in command for part in ("--network none", "--read-only", "--cap-drop ALL", ":/board:ro"))
    assert "USER 65534" in (place / "Dockerfile").read_text()
    hostile = "\n```\n@everyone <script>alert(1)</script> \x1b[31m"
    with (place / "report" / "verdict.txt").open("a") as file:
        file.write(hostile)
    assert run("comment comment", HEAD="abc", THEIRS="other").returncode == 1 and not (place / "commented").exists()
    changed = "submissions/a/manifest.json\n.github/workflows/verify.yml"  # whose verdict would be its own
    assert run("comment comment", HEAD="abc", THEIRS="abc", CHANGED=changed).returncode == 1
    assert run("comment comment", HEAD="abc", THEIRS="abc", BROKEN="yes").returncode == 1
    assert not (place / "commented").exists()
    assert run("comment comment", HEAD="abc", THEIRS="abc").returncode == 0
    body = (place / "comment.md").read_text()
    assert (place / "commented").read_text() == "7\n" and "accepted: submission" in body
    assert body.count("```") == 2 and body.endswith("```\n") and "\x1b" not in body


def test_an_edited_submission_ends_the_job_with_the_verdict(packed, work):
    source, name = packed
    place, run, base = work
    shutil.copytree(source, place / "board" / "submissions" / name)
    shard = next((place / "board" / "submissions" / name).rglob("*.gz"))
    shard.write_bytes(shard.read_bytes()[:-1])
    commit(run)
    assert run("verify find", BASE=base, NUMBER="7").returncode == 0
    end = run("verify check")
    assert (
        end.returncode == 1
        and "rejected" in end.stdout
        and "rejected" in (place / "report" / "verdict.txt").read_text()
    )


@pytest.mark.parametrize("paths", [
    ("decisions.jsonl",), ("submissions/{}/a", "decisions.jsonl"), ("submissions/{}/a", "submissions/{}x/a"), ("x",),
    ("submissions/short/a",), (".github/workflows/verify.yml",), ("submissions/{}/a", "x\nsubmissions/y"), (),
])  # fmt: skip
def test_a_pull_request_that_does_anything_else_is_refused(work, paths):
    place, run, base = work
    for path in paths:
        file = place / "board" / path.format("a" * 64)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("changed")
    run("cd board; git add -A; git commit -qm two --allow-empty")
    end = run("verify find", BASE=base, NUMBER="7")
    assert end.returncode == 1 and "changes nothing else" in (place / "report" / "verdict.txt").read_text()
    assert not (place / "docker.log").exists()


def test_a_submission_that_is_there_is_not_changed(work):
    place, run, _ = work
    file = place / "board" / "submissions" / ("a" * 64) / "manifest.json"
    file.parent.mkdir(parents=True)
    file.write_text("one")
    commit(run)
    base = run("git -C board rev-parse HEAD").stdout.strip()
    file.write_text("two")
    commit(run)
    end = run("verify find", BASE=base, NUMBER="7")
    assert end.returncode == 1 and "there already" in end.stdout


def test_no_secret_no_right_and_no_strangers_text_in_a_shell():
    rights = {name: flow["permissions"] for name, flow in FLOWS.items()}
    assert rights == {"verify": {"contents": "read"}, "comment": {"actions": "read", "pull-requests": "write"}}
    assert all(flow["defaults"] == {"run": {"shell": "bash"}} for flow in FLOWS.values())  # with pipefail, as here
    for name, text in FILES.items():
        assert "secrets." not in text and "pull_request_target" not in text
        for job in FLOWS[name]["jobs"].values():
            assert "permissions" not in job and all("${{" not in step.get("run", "") for step in job["steps"])
    assert "github.token" not in FILES["verify"] and "checkout" not in FILES["comment"]
    checkouts = [step for step in FLOWS["verify"]["jobs"]["verify"]["steps"] if "checkout" in step.get("uses", "")]
    assert [step["with"]["persist-credentials"] for step in checkouts] == [False]
    actions = re.findall(r"uses: ([\w/-]+)@([0-9a-f]{40}) # v4", FILES["verify"])  # a tag may be moved, a hash may not
    assert [name for name, _ in actions] == ["actions/checkout", "actions/upload-artifact"]
    assert FILES["verify"].count("uses:") == 2
