"""`LinkedPages` writes pages that link to each other into a folder, with a list of them, so that nothing else is replaced."""

import contextlib
import re
from pathlib import Path

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.html.page import Page, render

MARKER = ".agent-envs-pages"

_NAME = re.compile(r"(?:[a-z0-9_-]{1,80}/)?[a-z0-9_-]{1,80}\.html")


class LinkedPages:
    """A folder of pages, which are written in any order."""

    def __init__(self, folder: Path) -> None:
        """Make the folder, or take one of an earlier site and remove that site's pages.

        Raises:
            UsageError: it cannot be made, or holds files and no list of pages.
        """
        self.folder = folder
        self._marker = folder / MARKER
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # A run that somebody sent may hold links that lead anywhere.
            if folder.is_symlink() or self._marker.is_symlink():
                raise UsageError(f"{folder} is a link, or holds one in place of a list of pages: choose another folder")
            empty = next(folder.iterdir(), None) is None
        except OSError as error:
            raise UsageError(f"{folder} cannot hold pages: {error}") from error
        if not empty:
            self._remove_old()
        self._marker.write_text("", encoding="ascii")

    def write(self, name: str, page: Page) -> Path:
        """Write a page under a name like `index.html` or `pages/0001.html` and return its path.

        Raises:
            UsageError: the name is malformed or taken, by a file that is not ours too; or as `page.render`.
        """
        path = self.folder / name
        if not _NAME.fullmatch(name):
            raise UsageError(f"site: {name[:80]!r} is no name of a page")
        if path.parent.is_symlink() or path.is_symlink() or path.exists():
            raise UsageError(
                f"{path} is there already and no page of an earlier view: move it, or choose another folder"
            )
        html = render(page)
        # Listed first: a page that a kill leaves behind is known as ours.
        with self._marker.open("a", encoding="ascii") as file_list:
            file_list.write(f"{name}\n")
        path.parent.mkdir(exist_ok=True)
        with path.open("xb") as written:  # which follows no link
            written.write(html)
        return path

    def _remove_old(self) -> None:
        if not self._marker.is_file():
            raise UsageError(f"{self.folder} is not empty and holds no pages of an earlier view: choose another folder")
        names = self._marker.read_text(encoding="utf-8", errors="replace").splitlines()
        folders = set()
        for name in filter(_NAME.fullmatch, names):
            path = self.folder / name
            if path.is_file() and not path.is_symlink() and not path.parent.is_symlink():
                path.unlink()
            folders.add(path.parent)
        for folder in sorted(folders - {self.folder}):
            with contextlib.suppress(OSError):  # it holds somebody's file, and stays
                folder.rmdir()
