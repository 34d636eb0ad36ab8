"""HTML to text: what a reader sees, where it leads, and that hostile pages are read in bounded work."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.tools.web.html_text import Tag, absolute, page_of_html, plain_text, tokens
from agent_envs.tools.web.page import MAX_TEXT_CHARACTERS, WebPage
from agent_envs.tools.web.reader import decoded, page_of
from agent_envs.tools.web.text import one_line, sound
from agent_envs.tools.web.url_policy import Unopenable
from tests.examples import examples
from tests.rows import each_row

HERE = "https://h.example/a/b?c"
ARTICLE = """<!DOCTYPE html><html><head><title> A &amp; B
 test</title><style>p{}</style><script>if (a<b) "</p>"</script><base href="/wiki/"></head><body>
<nav><a href="/home">Home</a><ul><li>menu</ul></nav><header><h1>Mor</h1></header>
<p>Mor is a <a href="Town">harbour   <b>town</b></a> of 10<sup>4</sup> people.<sup><a href="#n1">[1]</a></sup></p>
<table><tr><th>Year<th>People</tr><tr><td>1990<td><p>9,000</p><tr><td>2000<td>10,000</table>
<ul><li>one<li>two<ol><li>x</li><li>y</li></ol></li><li>three</ul><p>End<br>line
<pre>
a
  b
</pre>
<a href="mailto:x@y">mail</a> <a href="javascript:x()">js</a> <a href="HTTP://Other.example/a b?q=1#frag">other</a>
<button>OK</button> after <!-- no --> x<sub>i</sub> <noscript>no script</noscript>
<footer>foot <a href=/legal>Legal</a></footer></body></html>"""
ARTICLE_TEXT = """# Mor

Mor is a harbour town of 10^4 people.^[1]

Year | People
1990 | 9,000
2000 | 10,000

- one
- two
  1. x
  2. y
- three

End
line

a
  b

mail js other after x_i no script"""


def text_of(source):
    return page_of_html(source, HERE).text


def test_an_article():
    page = page_of_html(ARTICLE, HERE)
    assert (page.title, page.text) == ("A & B test", ARTICLE_TEXT)
    assert page.links == (
        ("harbour town", "https://h.example/wiki/Town"),
        ("other", "http://Other.example/a%20b?q=1"),
        ("Home", "https://h.example/home"),
        ("Legal", "https://h.example/legal"),
    )


TEXTS = {
    "": "",
    "a  b\n\tc": "a b c",
    "a<b": "a",
    "a < b > c <3 <": "a < b > c <3 <",
    "a<b>c</b>d": "acd",
    "<p>a<p>b<div>c</div>d": "a\n\nb\nc\nd",
    "<h2>a</h2>b": "## a\n\nb",
    "<h2><div>a</div></h2><h3></h3>b": "## a\n\nb",
    "<ul><li></li><li>a</ul>b": "- a\n\nb",
    "<ol><li>a<li>b</ol><ol><li>c</ol>": "1. a\n2. b\n\n1. c",
    "<td>a<td>b": "a | b",
    "<table><tr><td>a</td><td></td><td>c</td></tr></table>": "a | | c",
    "<tr><td>a<br>b<td>c": "a\nb\n| c",
    "<pre>\n x\n\n\n\n y</pre>z": "x\n\n y\n\nz",
    "a<button>b</button>c": "a c",
    "&lt;p&gt; &amp;amp; &copy; &#233;&#xe9;&eacute &#0; &#55296;": "<p> &amp; \xa9 \xe9\xe9\xe9 \ufffd \ufffd",
    "&nosuch; &;": "&nosuch; &;",
    "&#" + "9" * 5_000 + ";x": "\ufffdx",
    "a\x00\x1b[31m\x7f\xad\u200bb": "a[31mb",
    "a&nbsp;b\xa0c": "a b c",
    "<script>x</script><style>y</style><iframe>z</iframe><textarea>w</textarea>a": "a",
    "<SCRIPT>a</script >b": "b",
    "<script>a</scripts>b</script>c": "c",
    "<svg><title>s</title><text>t</text></svg>a": "a",
    "<!-->a<!--->b<!-- c --->d<!--": "abd",
    "<!x>a<?y>b</ z>c</>d": "abcd",
    "<![CDATA[a]]>b": "b",
    "<a b='>'>c</a>": "c",
    '<a b=">" c=d>e': "e",
    "<p title=don't>a": "a",
    '<p a="b">c<p a="d>e': "c\n\ne",
    "<p a=b/>c</p/>d": "c\n\nd",
    "<br/>a<br />b": "a\nb",
    "<template>a</template>b": "b",
    "<nav>a<p>b": "a\n\nb",
    "<nav>a<nav>b</nav>c</nav>d": "d",
    "<nav>a</nav><footer>b<select>c<p>d": "a\n\nbc\n\nd",
    "</nav></p>a": "a",
    "<noscript>a</noscript>": "a",
    "<title>t</title>a<title>u</title>": "a",
    "<title>a": "",
    "<xmp><b>a</b></xmp>": "<b>a</b>",
}


@each_row("source", TEXTS)
def test_texts(source):
    assert text_of(source) == TEXTS[source]


def test_tags():
    found = list(tokens("<A HREF='a&amp;b' x  y = \"z\" href=second / >t</A q=1><img src=a/b/>"))
    assert found == [
        Tag("a", False, {"href": "a&b", "x": "", "y": "z"}), "t", Tag("a", True, {}), Tag("img", False, {"src": "a/b/"}),
    ]  # fmt: skip
    many = next(tokens("<a " + " ".join(f"a{number}=b" for number in range(500)) + ">"))
    assert len(many.attributes) == 100


LINKS = {
    "<a href=x>y</a>": (("y", "https://h.example/a/x"),),
    "<a href='x#p'>y</a><a href=x>z</a>": (("y", "https://h.example/a/x"),),
    "<a href=x></a><a href=x> <img> </a><a href=x>y": (("y", "https://h.example/a/x"),),
    "<a href=x>a<a href=y>b": (("a", "https://h.example/a/x"), ("b", "https://h.example/a/y")),
    "<a>a</a><a name=x>b</a></a>": (),
    "<a href='#top'>a</a><a href=''>b</a>": (),
    "<a href='ftp://x'>a</a><a href='http://['>b</a><a href='data:,x'>c</a><a href='http:///'>d</a>": (),
    "<a href=//o.example>a</a>": (("a", "https://o.example"),),
    "<base href='https://o.example/x/'><base href=/no/><a href=y>a</a>": (("a", "https://o.example/x/y"),),
    "<base href='javascript:x'><a href=y>a</a>": (("a", "https://h.example/a/y"),),
    "<a href=x>one <b>two</b>\nthree</a>": (("one two three", "https://h.example/a/x"),),
    "<a href='?q=1&amp;r=2'>a</a>": (("a", "https://h.example/a/b?q=1&r=2"),),
    "<nav><a href=n>n</a><a href=x>x</a></nav><a href=x>main</a>": (
        ("main", "https://h.example/a/x"), ("n", "https://h.example/a/n")),
}  # fmt: skip


@each_row("source", LINKS)
def test_links(source):
    assert page_of_html(source, HERE).links == LINKS[source]


def test_everything_is_bounded():
    page = page_of_html("<title>" + "t " * 900 + "</title>" + "".join(
        f"<a href='/{number}{'x' * (number % 7 * 600)}'>{'w' * 900}</a>" for number in range(3_000)), HERE)  # fmt: skip
    assert len(page.title) == 299 and len(page.text) <= MAX_TEXT_CHARACTERS and page.text.endswith("are shown.]")
    assert {len(words) for words, _ in page.links} == {200} and max(len(url) for _, url in page.links) <= 2_048
    assert len(page_of_html("".join(f"<a href=/{number}>a</a>" for number in range(3_000)), HERE).links) == 300
    assert len(text_of("x" * (MAX_TEXT_CHARACTERS + 1))) <= MAX_TEXT_CHARACTERS
    assert len(text_of("x" * MAX_TEXT_CHARACTERS)) == MAX_TEXT_CHARACTERS
    assert WebPage.from_json(page.to_json()) == page


SIZE = 100_000
# What is repeated until the page is full, and what stands before it.
HOSTILE = {
    "<": "<", "deep": "<div>", "deep lists": "<ul><li>x", "tables": "<table><tr><td>x", "comments": "<!--",
    "open comments": "<!-- >", "declarations": "<!x ", "unclosed tags": "<a", "unclosed quotes": "<a b='",
    "mixed quotes": "<a b=\"'", "blanks": " ", "&": "&", "&#x": "&#x", "entities": "&amp;", "nul": "\0", "scripts": "<script>",
    "formatting": "<b><i>x</b>", "end tags": "</p>", "links": "<a href=x>y", "cdata": "<![CDATA[", "instructions": "<?x ",
    "sup": "<sup>x", "dots": "<a href=" + "../" * 600 + ">x</a>",
}  # fmt: skip
HOSTILE_BEHIND = {
    "=": ("<a ", "="), "quotes": ("<a ", '="'), "blanks in a tag": ("<a", " "), "names": ("<", "a"), "digits": ("&#", "9"),
    "script ends": ("<script>", "</script"), "one link": ("<a href=x>", "y<b>"), "pre": ("<pre>", "\n"),
    "noise": ("<nav><button><select>", "<b>x"), "attributes": ("<a ", "a{}=b "),
}  # fmt: skip


def hostile(name):
    start, piece = HOSTILE_BEHIND.get(name) or ("", HOSTILE[name])
    return start + "".join(piece.format(number) if "{}" in piece else piece for number in range(SIZE // len(piece)))


@pytest.mark.parametrize("name", [*HOSTILE, *HOSTILE_BEHIND])
def test_hostile_pages_cost_steps_in_proportion_to_their_length(name):
    """Counted in tokens, not in seconds: a quadratic reader would not end within the suite's own limit."""
    source = hostile(name)
    assert sum(1 for _ in tokens(source)) <= len(source)
    page = page_of_html(source, HERE)
    assert len(page.text) <= MAX_TEXT_CHARACTERS and WebPage.from_json(page.to_json()) == page
    assert page_of_html("<p>before</p>" + source, HERE).text.startswith("before")


NAMES = ("p", "nav", "pre", "table", "tr", "td", "ol", "li", "h1", "title", "script", "a")
PIECES = (
    "<", ">", "</", "<!--", "-->", "<a href=", "'", '"', "=", " ", "/", "&", "&#", ";", "\0", "\n", "]]>", "<?", "&#x200b;",
)  # fmt: skip
MARKUP = st.lists(
    st.one_of(
        st.sampled_from(PIECES),
        st.sampled_from(NAMES).map("<{}>".format),
        st.sampled_from(NAMES).map("</{}>".format),
        st.text(max_size=4),
    ),
    max_size=40,
).map("".join)


@examples(300)
@given(MARKUP)
def test_any_markup_is_a_page(source):
    page = page_of_html(source, HERE)
    assert WebPage.from_json(page.to_json()) == page and page.url == HERE and not page.error
    assert sound(page.text) == page.text.strip() and "\n\n\n" not in page.text
    assert all(words and url.startswith("https://") or url.startswith("http://") for words, url in page.links)


CHARSETS = {
    "header": ("\u017e", "cp1257", "text/html; charset=windows-1257"),
    "quoted": ("\u017e", "utf-8", 'text/html; charset="UTF-8"'),
    "latin-1 of the web": ("\u20ac\xe9", "cp1252", "text/html;charset=latin1"),
    "meta": ("<meta charset=shift_jis>\u6771\u4eac", "cp932", "text/html"),
    "old meta": ('<meta http-equiv=x content="text/html; charset=KOI8-R">\u0416', "koi8_r", "text/html"),
    "header before meta": ("<meta charset=koi8-r>\u017e", "utf-8", "text/html; charset=utf-8"),
    "xml": ('<?xml version="1.0" encoding="iso-8859-2"?>\u0151', "iso8859_2", "text/xml"),
    "utf-8 unsaid": ("\u017e\U0001f600", "utf-8", "text/html"),
    "windows-1252 unsaid": ("caf\xe9 \u201cx\u201d", "cp1252", "text/html"),
    "mark": ("\ufeff\u017e", "utf-16-le", "text/html; charset=utf-8"),
    "utf-16 in ASCII": ("<meta charset=utf-16>\u017e", "utf-8", "text/html"),
    "unknown": ("\u017e", "utf-8", "text/html; charset=x-unknown"),
    "no character set of the web": ("\u017e", "utf-8", "text/html; charset=hex"),
    "nor this": ("\u017e", "utf-8", "text/html; charset=unicode_escape"),
}


@each_row("name", CHARSETS)
def test_character_sets(name):
    text, codec, kind = CHARSETS[name]
    assert decoded(text.encode(codec), kind, kind.partition(";")[0]) == text


def test_a_cut_character_does_not_change_the_character_set():
    assert decoded("\u017e\u017e".encode()[:-1], "text/html", "text/html") == "\u017e\ufffd"
    assert decoded(("a" * 90 + "\u20ac").encode()[:-1], "text/html", "text/html") == "a" * 90 + "\ufffd"
    with pytest.raises(Unopenable, match="no text"):
        page_of("a".encode("utf-16-le") * 90, "text/html", HERE)


def test_lines_of_strangers():
    assert one_line(" a\n\x00b\u202f c ", 99) == "a b c" and one_line("ab cd", 3) == "ab"
    assert plain_text("<p>x</p>&lt;y", 99) == "x <y" and sound("a\r\nb\rc\td\ud800") == "a\nb\nc\td"
    assert absolute(HERE, "x y") == "https://h.example/a/x%20y" and absolute(HERE, "x" * 2_049) == ""
