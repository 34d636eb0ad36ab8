"""Static HTML pages show runs and reports; they need no script and no network, and escape what models and strangers wrote.

Modules, in reading order:
    view: `agent-envs view`: the index and the transcripts of a run, with gold answers, written to a folder.
    page: one page from tables, curves and transcripts: escaping, security policy, size limits; a folder of pages with links.
    page.html, transcript.html, conversation.html: the Jinja2 templates, with the style sheet.
    report_page: `agent-envs report --page` and `compare --page`.
    message_html: the text of a message: folding, cutting, action tags; all sides of a conversation.
    replayed_view: tasks, and the replay of recorded episodes, for what only the environment knows.
    rendered_states: SVG pictures of states.
"""
