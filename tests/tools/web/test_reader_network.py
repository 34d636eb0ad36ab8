"""The page reader checks every redirect and resolved address, and raises a fault only for local network failures."""

import errno
import socket

import pytest

from agent_envs.base.errors import EnvFault
from agent_envs.services.http import HttpClient
from agent_envs.tools.web.url_policy import UrlPolicy
from tests.rows import each_row
from tests.servers import FaultServer
from tests.tools.web.conftest import PAGE, TEXT, error_of, fault_of, reader, redirect, site

UNKNOWN = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


REDIRECTS = [301, 302, 303, 307, 308]


@pytest.mark.parametrize("status", REDIRECTS)
def test_redirects_are_followed_by_hand(status):
    pages = {"/a": redirect("b/c?d=e#f", status), "/g": PAGE}
    with site(pages) as server:
        pages["/b/c?d=e"] = redirect(server.url[5:] + "/g", status)
        page = reader().read(server.url + "/a")
        assert (page.url, page.text) == (server.url + "/g", TEXT)
        assert [request[1] for request in server.requests] == ["/a", "/b/c?d=e", "/g"]


def test_five_redirects_and_no_more():
    pages = {f"/{number}": redirect(f"/{number + 1}") for number in range(9)} | {"/6": PAGE}
    with site(pages) as server:
        assert reader().read(server.url + "/1").text == TEXT
        assert error_of(server.url + "/0") == "The page leads on more than 5 times."
        assert server.count == 6 + 6


TARGETS = {
    "http://169.254.169.254/latest/meta-data/": "169.254.169.254 is no public host.",
    "http://localhost/": "localhost is no public host.",
    "http://[::1]:8080/": "::1 is no public host.",
    "http://[::ffff:127.0.0.1]/": "::ffff:127.0.0.1 is no public host.",
    "http://2130706433/": "2130706433 is no public host.",
    "http://192.168.0.1:22/": "Port 22 is not opened; the ports are 80, 443, 8080, 8443.",
    "file:///etc/passwd": "This is no URL of the form http://HOST/PATH or https://HOST/PATH.",
    "http://me:key@127.0.0.1/": "The URL holds a user name or a password.",
    "http://[": "This is no URL of the form http://HOST/PATH or https://HOST/PATH.",
    "http://127.0.0.1/" + "a" * 3_000: "The URL is longer than 2,048 characters.",
}


@each_row("target", TARGETS)
def test_each_redirect_is_checked_anew(target):
    with site({"/": redirect(target)}) as server:
        assert error_of(server.url + "/") == TARGETS[target]
        assert server.count == 1


def test_a_redirect_that_leads_nowhere():
    with site({"/": (302, {}, b""), "/two": redirect("/two")}) as server:
        assert error_of(server.url + "/") == "The page leads on more than 5 times."
        assert error_of(server.url + "/two") == "The page leads on more than 5 times."


def test_an_exempt_port_is_no_exempt_host():
    with site({"/": PAGE}) as server, site({"/": redirect(server.url)}) as leading:
        port = leading.url.rpartition(":")[2]
        said = error_of(leading.url + "/", private_hosts=[f"127.0.0.1:{port}"])
        assert said.startswith("Port ") and (server.count, leading.count) == (0, 1)


def test_a_name_whose_address_is_private_is_not_connected_to(names):
    # Port 8080 may be open on this machine or not: nothing is sent to it.
    names.known = {"inside.example": [["10.1.2.3"]], "mixed.example": [["8.8.8.8", "127.0.0.1"]]}
    for host in names.known:
        assert error_of(f"http://{host}:8080/") == f"{host} is no public host."
        assert names.asked[host] == 1


def test_a_redirect_to_a_name_whose_address_is_private(names):
    names.known = {"site.example": [["127.0.0.1"]], "inside.example": [["127.0.0.1"]]}
    with site({"/": redirect("http://inside.example/x")}) as server:
        url = server.url.replace("127.0.0.1", "site.example")
        assert error_of(url + "/", private_hosts=["site.example"]) == "inside.example is no public host."
        assert server.count == 1 and server.requests[0][2]["host"] == url[7:]


def test_a_name_is_looked_up_once_so_that_its_address_cannot_change_behind_the_check(names):
    # The second answer would be the private one.
    names.known = {"rebind.example": [["192.0.2.77"], ["127.0.0.1"]]}
    admitted = []
    with site({"/": PAGE}) as server:
        url = server.url.replace("127.0.0.1", "rebind.example")
        client = HttpClient("web", admit=lambda host, port, addresses: admitted.append((host, port, tuple(addresses))))
        with pytest.raises(EnvFault):
            client.send("GET", url + "/", seconds=0.3)
        assert server.count == 0 and names.asked["rebind.example"] == 1
        # A later connection is a later look-up, and is asked for anew.
        assert client.send("GET", url + "/", seconds=5).status == 200
        port = int(url.rpartition(":")[2])
        assert admitted == [("rebind.example", port, ("192.0.2.77",)), ("rebind.example", port, ("127.0.0.1",))]
        client.close()


def test_the_old_spellings_of_addresses_are_caught_where_they_are_resolved():
    for host in ("2130706433", "0x7f.1", "127.1", "localhost"):
        client = HttpClient("web", admit=UrlPolicy())
        with pytest.raises(Exception, match="is no public host"):
            client.send("GET", f"http://{host}:9/", seconds=5)


def test_names_that_do_not_exist_and_servers_that_are_not_there(names):
    names.known = {"gone.example": [socket.gaierror(socket.EAI_NONAME, "Name or service not known")]}
    assert error_of("http://gone.example/") == "The name gone.example does not exist."
    assert names.asked["gone.example"] == 1
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert error_of(f"http://127.0.0.1:{port}/") == "No connection to 127.0.0.1 can be made."


def test_a_resolver_that_fails_is_our_fault(names):
    names.known = {"site.example": [UNKNOWN]}
    fault = fault_of("http://site.example/")
    assert fault.retryable and "the name of the host cannot be resolved (attempt 5 of 5)" in fault.cause
    assert names.asked["site.example"] == 5


def test_a_network_that_is_down_is_our_fault(monkeypatch):
    def unreachable(*args, **kwargs):
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", unreachable)
    assert "cannot connect (attempt 5 of 5)" in fault_of("http://127.0.0.1:9/").cause


def test_an_address_without_a_way_does_not_hide_what_the_other_said(names, monkeypatch):
    names.known = {"both.example": [["192.0.2.1", "192.0.2.2", "192.0.2.3"]]}
    errors = {"192.0.2.1": errno.ENETUNREACH, "192.0.2.2": errno.ECONNREFUSED, "192.0.2.3": errno.ENETUNREACH}

    def connect(address, *args, **kwargs):
        raise OSError(errors[address[0]], "no")

    monkeypatch.setattr(socket, "create_connection", connect)
    assert (
        error_of("http://both.example/", private_hosts=["both.example"]) == "No connection to both.example can be made."
    )


def test_a_proxy_of_the_environment_opens_pages_and_the_guard_holds_before_it(names, monkeypatch):
    names.known = {"inside.example": [["10.1.2.3"]], "unknown.example": [UNKNOWN]}
    with site(
        {"http://unknown.example/a": PAGE, "http://unknown.example/b": redirect("http://inside.example/")}
    ) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        opened = reader(private_hosts=[])
        assert opened.read("http://unknown.example/a").text == TEXT
        for host in ("127.0.0.1", "localhost", "router", "inside.example", "127.1"):
            assert opened.read(f"http://{host}/").error == f"{host} is no public host."
        assert opened.read("http://unknown.example/b").error == "inside.example is no public host."
        assert [request[1] for request in proxy.requests] == ["http://unknown.example/a", "http://unknown.example/b"]


@pytest.mark.parametrize(("status", "ours"), [(403, False), (502, False), (503, False), (407, True), (429, True)])
def test_a_proxy_that_refuses_a_tunnel(names, monkeypatch, status, ours):
    # A client asks the environment for its proxy once for each host.
    host = f"behind-{status}.example"
    names.known = {host: [UNKNOWN]}
    with FaultServer(lambda path, headers, body: (status, {}, b"")) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        if ours:
            assert "cannot connect" in fault_of(f"https://{host}/").cause
        else:
            assert error_of(f"https://{host}/") == f"No connection to {host} can be made."
        assert proxy.requests[0][:2] == ("CONNECT", f"{host}:443")


def test_a_proxy_that_is_not_there_is_our_fault(names, monkeypatch):
    names.known = {"no-proxy.example": [UNKNOWN]}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{taken.getsockname()[1]}")
    fault = fault_of("http://no-proxy.example/")
    assert "cannot connect (attempt 5 of 5)" in fault.cause and "127.0.0.1" not in fault.cause
