"""`WebPage` is a page of the web as a policy gets it, or the reason why it was not opened."""

from dataclasses import dataclass
from typing import Any

from agent_envs.tools.web.url_policy import MAX_URL_CHARACTERS

MAX_TITLE_CHARACTERS = 300
MAX_TEXT_CHARACTERS = 200_000
MAX_LINKS = 300
MAX_LINK_CHARACTERS = 200
_MAX_ERROR_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page that was opened, or why it was not.

    Attributes:
        url: where the page was found, behind all redirects; what was asked for where there is an error.
        title: one line.
        text: what a reader sees; paragraphs are set off by empty lines, headings by #, items of lists by -, cells by |.
        links: (text, absolute URL), each URL once, those of menus last.
        error: a sentence; "" for a page.
    """

    url: str
    title: str = ""
    text: str = ""
    links: tuple[tuple[str, str], ...] = ()
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        links = [list(link) for link in self.links]
        return {"url": self.url, "title": self.title, "text": self.text, "links": links, "error": self.error}

    @classmethod
    def from_json(cls, value: Any) -> "WebPage":
        """Return the page of a JSON form, which may come from a stranger.

        Raises ValueError: it is none; the message says where.
        """
        if not isinstance(value, dict) or set(value) != {"url", "title", "text", "links", "error"}:
            raise ValueError("a page is an object of url, title, text, links and error")
        limits = {
            "url": MAX_URL_CHARACTERS,
            "title": MAX_TITLE_CHARACTERS,
            "text": MAX_TEXT_CHARACTERS,
            "error": _MAX_ERROR_CHARACTERS,
        }
        for name, most in limits.items():
            _check_text(value[name], name, most)
        links = value["links"]
        if not isinstance(links, list) or len(links) > MAX_LINKS:
            raise ValueError(f"links is no list of at most {MAX_LINKS}")
        for link in links:
            if not isinstance(link, list) or len(link) != 2:
                raise ValueError("a link is a list of a text and a URL")
            _check_text(link[0], "the text of a link", MAX_LINK_CHARACTERS)
            _check_text(link[1], "the URL of a link", MAX_URL_CHARACTERS)
        return cls(
            value["url"], value["title"], value["text"], tuple((text, url) for text, url in links), value["error"]
        )


def _check_text(value: Any, what: str, most: int) -> None:
    if not isinstance(value, str) or len(value) > most:
        raise ValueError(f"{what} is no text of at most {most:,} characters")
