"""Replies of a model that is paid for are kept until their episode ends, so that none is asked for twice.

Where a judge or a simulated user fails, or the run is killed, the episode begins again: its environment is reset and stepped
with the replies that it has, outside services answer from their recording, and the model is asked from the turn on that it has
not answered. A reply belongs to the very context that it was given to: where the context is another one now, the model is
asked anew.
"""

import threading
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.base.serialization import digest
from agent_envs.rollout.policy import Policy, Reply, Request, check_replies, traits_of


class ReplyLog:
    """The replies of episodes that have not ended, in a file beside the run's journal or in memory; safe for many threads."""

    def __init__(self, path: Path | None, ended: Collection[str] = ()) -> None:
        """Read the file, where there is one; it is made with the first reply. None keeps the replies in memory alone.

        Args:
            path: of the file.
            ended: keys of episodes whose replies nobody needs any more.

        Raises:
            UsageError: another process is writing the file, or it is damaged before its last line.
        """
        self._lock, self._path = threading.Lock(), path
        self._rows: dict[str, dict[str, Reply]] = {}  # by episode and place; usage is what no journal has counted
        self._file = Journal(path) if path is not None and path.exists() else None
        for row in read_journal(path) if path is not None else ():
            if row["episode"] in ended:
                continue
            if "reply" in row:
                self._rows.setdefault(row["episode"], {})[row["place"]] = _reply_of(row["reply"])
            else:
                self._count(row["episode"])

    def find(self, request: Request) -> Reply | None:
        """Return the reply to this request, with the usage that nobody has counted; None where there is none."""
        with self._lock:
            replies = self._rows.get(request.episode_key)
            reply = replies.get(place_of(request)) if replies else None
            if replies is None or reply is None:
                return None
            replies[place_of(request)] = replace(reply, usage={"calls": 0})
            return reply

    def keep(self, request: Request, reply: Reply) -> None:
        """Write a reply, before anything else is done with it."""
        place = place_of(request)
        self.put(request.episode_key, place, reply)
        with self._lock:  # who asked has counted it
            self._rows[request.episode_key][place] = replace(reply, usage={"calls": 0})

    def put(self, key: str, place: str, reply: Reply) -> None:
        """Write a reply of an episode whose usage nobody has counted yet."""
        with self._lock:
            if self._path is not None:
                self._file = self._file or Journal(self._path)
                self._file.append({"episode": key, "place": place, "reply": asdict(reply)})
            self._rows.setdefault(key, {})[place] = reply

    def rows(self, key: str) -> dict[str, Reply]:
        """Return the replies of an episode by place."""
        with self._lock:
            return dict(self._rows.get(key, {}))

    def counted(self, key: str) -> None:
        """Note that the journal has counted the usage of all replies of an episode, which a fault or a budget ended."""
        with self._lock:
            if self._rows.get(key) and self._file is not None:
                self._file.append({"episode": key})
            self._count(key)

    def drop(self, key: str) -> None:
        """Forget the replies of an episode that has ended."""
        with self._lock:
            self._rows.pop(key, None)

    def close(self) -> None:
        """Put everything on disk and release the file, which goes once no episode needs it."""
        if self._file is not None and self._path is not None:
            self._file.close()
            self._file = None
            if not self._rows:
                self._path.unlink()

    def _count(self, key: str) -> None:
        replies = self._rows.get(key, {})
        replies.update({place: replace(reply, usage={"calls": 0}) for place, reply in replies.items()})


class RememberingPolicy:
    """A policy that is not asked for a reply that a log has; those that cost a call are kept in it."""

    def __init__(self, policy: Policy, log: ReplyLog) -> None:
        self.name, self.batch, self.traits = policy.name, getattr(policy, "batch", 1), traits_of(policy)
        self._policy, self._log = policy, log

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the policy itself; AttributeError for a private name, as of a copy that has none yet."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._policy, name)

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return the replies of the log, and those of the policy to requests that have none there."""
        replies = [self._log.find(request) for request in requests]
        open_requests = [request for request, reply in zip(requests, replies, strict=True) if reply is None]
        if not open_requests:
            return [reply for reply in replies if reply is not None]
        fresh = iter(check_replies(self.name, self._policy.act(open_requests), len(open_requests)))
        answers = []
        for request, reply in zip(requests, replies, strict=True):
            answer = next(fresh) if reply is None else reply
            if reply is None and answer.usage.get("calls"):
                self._log.keep(request, answer)
            answers.append(answer)
        return answers


def place_of(request: Request) -> str:
    """Return the digest of a request's place in its episode and of all that the model is shown."""
    return digest([request.branch, request.turn, list(request.messages), request.prefill])


def _reply_of(row: dict[str, Any]) -> Reply:
    """Return the reply of its stored form."""
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    return Reply(**fields)
