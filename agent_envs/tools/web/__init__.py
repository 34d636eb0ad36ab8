"""The web tools search the live web, with a key or by a self-hosted engine, and read pages of public hosts.

Both go through the port, so that a run's answers can be recorded and replayed without a key or a network. What a page or the
choice of a URL causes stands in the page's `error`; what fails on our side is an EnvFault.

Modules, in reading order:
    search: `WebSearch`, a search engine as a retriever: its key, deadline and recording.
    providers: requests to Serper (Google), Brave and SearXNG, and the parser of their answers.
    reader: `PageReader`, which opens a URL: deadline, retries, redirects, cap on bytes, errors in words.
    url_policy: the URLs that may be opened: public hosts, ports, private networks refused (SSRF), hosts that are exempt.
    page: `WebPage`: title, text, links and error of a page; text laid out in lines within a length.
    html_text: HTML as readable text with links, and the tokenizer of tags below it.
    text: the cleaning of unsound characters.
"""

from agent_envs.tools.web.page import WebPage
from agent_envs.tools.web.reader import PageReader
from agent_envs.tools.web.search import WEB_FORMS, WebSearch, is_web_search

__all__ = ["WEB_FORMS", "PageReader", "WebPage", "WebSearch", "is_web_search"]
