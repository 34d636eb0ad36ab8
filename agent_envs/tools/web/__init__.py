"""The live web behind tools: search engines by key or self-hosted, and a reader of pages that opens public hosts only.

Both go through the port, so that a run's answers can be recorded and replayed without a key or a network. What a page or the
choice of a URL causes is told in the page's `error`; what fails on our side is an EnvFault.
"""

from agent_envs.tools.web.page import WebPage
from agent_envs.tools.web.reader import PageReader
from agent_envs.tools.web.search import WEB_FORMS, WebSearch, is_web_search

__all__ = ["WEB_FORMS", "PageReader", "WebPage", "WebSearch", "is_web_search"]
