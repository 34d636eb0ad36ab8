"""The guard: which URLs have a form that is opened, which addresses are public, which hosts are exempt."""

import ipaddress
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.tools.web.url_policy import Unopenable, UrlPolicy, is_public, url_policy_for
from tests.examples import examples
from tests.rows import each_row

NO_URL = "This is no URL of the form http://HOST/PATH or https://HOST/PATH."
PRIVATE = [
    # loopback, private, link-local (clouds' metadata), shared, unspecified, broadcast, reserved, multicast, documentation
    "127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "100.100.100.200", "0.0.0.0", "0.1.2.3", "255.255.255.255", "240.0.0.1", "224.0.0.1", "239.255.255.250",
    "192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "192.0.0.1", "192.0.0.192", "192.88.99.1", "168.63.129.16",
    # the same in IPv6
    "::1", "::", "fe80::1", "fe80::1%1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", "100::1",
    "3fff::1", "5f00::1", "4000::1",
    # IPv4 inside IPv6: mapped, compatible, 6to4, NAT64, local NAT64, Teredo
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:7f00:1", "::127.0.0.1", "::10.0.0.1",
    "2002:7f00:1::", "2002:a00:1::1", "2002:a9fe:a9fe::", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1",
    "64:ff9b:1::808:808", "2001:0:808:808::f5ff:fffe", "2001:20::1",
    "", "localhost", "127.1", "0x7f.0.0.1", "1.2.3.4.5", "1.2.3.4 ",
]  # fmt: skip
PUBLIC = [
    "8.8.8.8", "1.1.1.1", "93.184.216.34", "172.15.255.255", "172.32.0.1", "192.169.0.1", "100.63.255.255", "100.128.0.1",
    "168.63.129.17", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::808:808",
    "2002:808:808::1",
]  # fmt: skip
NO_FORMS = [
    "", " ", "h.example", "//h.example/", "/path", "http:", "http://", "http:///x", "http:h.example", "http:/h.example/",
    "ftp://h.example/", "file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "gopher://h.example/",
    "ws://h.example/", "about:blank", "http://h.example/\n", "http://h.example/\x00", "http://h.ex ample/", "http://a..b/",
    "http://.h.example/", "http://h.example;x/", "http://*.example/", "http://[::1", "http://[::1]x/", "http://[::g]/",
    "http://[fe80::1%25eth0]/", "http://h.example:0/", "http://h.example:99999/", "http://h.example:-1/",
    "http://h.example:x/", "http://%31%32%37.0.0.1/", "http://1.2.3.256/", "http://0177.0.0.1/", "http://\uff11\uff12\uff17.0.0.1/",
    "http://" + "a" * 64 + ".example/", "http://" + "a." * 130 + "example/", "http://h.example\ud800/", "\x00http://h.example/",
]  # fmt: skip
NO_PUBLIC_HOSTS = [
    "localhost", "LOCALHOST", "localhost.", "a.localhost", "router", "printer.local", "metadata.google.internal",
    "nas.home.arpa", "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "1.2.3.0x4", "127.0.0.1.", "169.254.169.254",
    "127\u30020\u30020\u30021", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[fe80::1]", "[64:ff9b::7f00:1]",
]  # fmt: skip
OPENED = {
    "http://h.example": "http://h.example",
    "HTTPS://H.Example:443/A?b=C#d": "https://h.example/A?b=C",
    "http://h.example:8080/x": "http://h.example:8080/x",
    "http://h.example/a b?q=\xfc": "http://h.example/a%20b?q=%C3%BC",
    "http://h.example/%2e%2e/x?y=%20": "http://h.example/%2e%2e/x?y=%20",
    "http://b\xfccher.example/": "http://xn--bcher-kva.example/",
    "http://h.example./": "http://h.example./",
    "http://8.8.8.8/": "http://8.8.8.8/",
    "https://[2606:4700::1111]:8443/": "https://[2606:4700::1111]:8443/",
    "http://h_x.example/": "http://h_x.example/",
    "http://127.0.0.1.example/": "http://127.0.0.1.example/",
}


def refusal(url, guard=None):
    with pytest.raises(Unopenable) as caught:
        (guard or UrlPolicy()).place(url)
    return str(caught.value)


@each_row("address", PRIVATE)
def test_addresses_that_are_not_public(address):
    assert not is_public(address)


@each_row("address", PUBLIC)
def test_addresses_that_are_public(address):
    assert is_public(address)


@each_row("url", NO_FORMS)
def test_urls_of_no_form_that_is_opened(url):
    assert refusal(url) == NO_URL


@each_row("host", NO_PUBLIC_HOSTS)
def test_hosts_that_are_private_by_their_name(host):
    assert refusal(f"http://{host}/x").endswith(" is no public host.")


@each_row("url", OPENED)
def test_urls_that_are_opened_in_their_normal_form(url):
    assert UrlPolicy().place(url) == OPENED[url] and UrlPolicy().place(OPENED[url]) == OPENED[url]


@pytest.mark.parametrize(
    "url",
    ["http://me:secret@h.example/", "http://me@h.example/", "http://h.example\\@127.0.0.1/", "http://a@b@h.example/"],
)
def test_urls_with_passwords(url):
    said = refusal(url)
    assert said == "The URL holds a user name or a password." and "secret" not in said


@pytest.mark.parametrize("port", [1, 22, 25, 6379, 8000, 9200, 65535])
def test_ports_of_no_web_server(port):
    assert refusal(f"http://h.example:{port}/") == f"Port {port} is not opened; the ports are 80, 443, 8080, 8443."


def test_long_urls():
    most = "http://h.example/" + "a" * (2_048 - 17)
    assert UrlPolicy().place(most) == most
    assert refusal(most + "a") == "The URL is longer than 2,048 characters."


def test_all_addresses_of_a_host_have_to_be_public():
    UrlPolicy()("h.example", 80, ["8.8.8.8", "2606:4700::1111"])
    UrlPolicy()("h.example", 80, [])  # behind a proxy, which resolves
    for addresses in (["8.8.8.8", "10.0.0.1"], ["::1", "8.8.8.8"], ["127.0.0.1"], ["fe80::1%eth0"]):
        with pytest.raises(Unopenable) as caught:
            UrlPolicy()("h.example", 80, addresses)
        assert str(caught.value) == "h.example is no public host."  # no address


def test_exempt_hosts():
    guard = url_policy_for(["Intra.example:8000", "127.0.0.1", "[::1]:90", "fd00:0::1", "wiki."])
    places = ("http://intra.example:8000/", "http://127.0.0.1:5/", "http://127.0.0.1/", "http://[0:0::1]:90/",
              "http://[fd00::1]:7/", "http://wiki/x", "http://wiki.:99/")  # fmt: skip
    for place in places:
        parts = urlsplit(guard.place(place))
        guard(parts.hostname, parts.port or 80, ["10.0.0.1"])
    for place in (
        "http://intra.example:8001/",
        "http://[::1]/",
        "http://127.0.0.2/",
        "http://x.wiki:99/",
        "http://localhost/",
    ):
        refusal(place, guard)
    with pytest.raises(Unopenable):
        guard("intra.example", 80, ["10.0.0.1"])
    assert refusal("http://127.0.0.1:0/", guard) == refusal("http://127.0.0.1:65536/", guard) == NO_URL


@each_row(
    "text",
    [
        "",
        ":80",
        "http://h.example",
        "h.example/x",
        "h.example:",
        "h.example:x",
        "h.example:65536",
        "u@h",
        "[::1",
        "a b",
    ],
)
def test_exempt_hosts_that_are_none(text):
    with pytest.raises(UsageError, match="private_hosts holds"):
        url_policy_for([text])


HOSTS = st.one_of(st.text(max_size=20), st.from_regex(r"[0-9a-fx.:\[\]%@\\]{1,20}", fullmatch=True))


@examples(400)
@given(st.one_of(st.text(max_size=60), st.builds("http://{}/{}".format, HOSTS, st.text(max_size=10))))
def test_any_text_is_refused_or_has_one_meaning(url):
    import httpx

    try:
        place = UrlPolicy().place(url)
    except Unopenable as reason:
        assert len(str(reason)) < 300
        return
    # Whoever reads the URL afterwards sees the same host, and none of its own kind of address.
    host = urlsplit(place).hostname
    assert host == httpx.URL(place).raw_host.decode() and "@" not in urlsplit(place).netloc
    assert place.isascii() and place.isprintable() and UrlPolicy().place(place) == place
    if host.replace(".", "").isdecimal():
        assert is_public(str(ipaddress.ip_address(host)))
