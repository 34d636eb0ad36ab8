"""The port to outside services: keys, recordings, attempts, faults."""

import threading

import pytest

from agent_envs import EnvFault, UsageError
from agent_envs.external import MAX_ATTEMPTS, CallSite, ExternalPort


class Counter:
    """A service that answers with the number of the call."""

    def __init__(self):
        self.calls = 0

    def __call__(self, request):
        self.calls += 1
        return {"call": self.calls, "request": request}


class Flaky:
    """Fails `times` times."""

    def __init__(self, times, retryable=True):
        self.times, self.retryable, self.calls = times, retryable, 0

    def __call__(self, request):
        self.calls += 1
        if self.calls <= self.times:
            raise EnvFault("busy", self.retryable)
        return "fine"


SITES = [CallSite("k1"), CallSite("k1", "b"), CallSite("k1", "", 1), CallSite("k2"), CallSite("k2", "b", 1)]


def test_a_recording_replays_without_the_service(tmp_path):
    store = tmp_path / "store"
    port = ExternalPort("user", Counter(), mode="record", store=store)
    said = {site: port.call({"q": "é \ud800"}, site) for site in SITES}
    other = port.call({"q": "?"}, SITES[0])
    port.close()
    replayed = ExternalPort("user", mode="replay", store=store)
    assert {site: replayed.call({"q": "é \ud800"}, site) for site in reversed(SITES)} == said
    assert replayed.call({"q": "?"}, SITES[0]) == other
    assert len({answer["call"] for answer in said.values()}) == len(SITES)


def test_equal_starts_draw_independent_samples_and_a_repeated_call_does_not():
    port = ExternalPort("user", Counter())
    assert len({port.key("hello", CallSite(f"k{group}")) for group in range(8)}) == 8
    assert len({port.key("hello", site) for site in SITES}) == len(SITES)
    assert port.key({"a": 1, "b": 2}, SITES[0]) == port.key({"b": 2, "a": 1}, SITES[0])
    assert port.key("a", SITES[0]) != ExternalPort("judge", Counter()).key("a", SITES[0])


def test_a_deterministic_port_is_asked_once_for_all_episodes(tmp_path):
    service = Counter()
    port = ExternalPort("judge", service, mode="record", store=tmp_path / "s", deterministic=True)
    assert {port.call("same", site)["call"] for site in SITES} == {1}
    assert port.call("other", SITES[0])["call"] == 2 and service.calls == 2
    port.close()


def test_a_recording_goes_on_where_it_was_cut(tmp_path):
    for start in (1, 2):
        service = Counter()
        port = ExternalPort("user", service, mode="record", store=tmp_path / "s")
        port.call("a", SITES[0])
        assert service.calls == (1 if start == 1 else 0)
        port.close()


def test_a_live_port_calls_even_where_there_are_recordings(tmp_path):
    port = ExternalPort("user", Counter(), mode="record", store=tmp_path / "s")
    port.call("a", SITES[0])
    port.close()
    service = Counter()
    live = ExternalPort("user", service, mode="live", store=tmp_path / "s")
    live.call("a", SITES[0]), live.call("a", SITES[0])
    assert service.calls == 2


def test_what_is_recorded_is_what_was_returned(tmp_path):
    port = ExternalPort("user", lambda request: {"pair": (1, 2)}, mode="record", store=tmp_path / "s")
    first = port.call("a", SITES[0])
    first["pair"] = "spoiled by the caller"
    again = port.call("a", SITES[0])
    fresh = port.call("a", SITES[1])
    port.close()
    replayed = ExternalPort("user", mode="replay", store=tmp_path / "s")
    assert again == fresh == replayed.call("a", SITES[0]) == replayed.call("a", SITES[1]) == {"pair": [1, 2]}


def test_two_threads_that_ask_at_once_get_one_answer(tmp_path):
    gate = threading.Barrier(2)
    numbers = iter(range(10))

    def service(request):
        gate.wait(10)
        return next(numbers)

    port = ExternalPort("judge", service, mode="record", store=tmp_path / "s", deterministic=True)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(port.call("a", SITES[0]))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    port.close()
    recorded = ExternalPort("judge", mode="replay", store=tmp_path / "s", deterministic=True).call("a", SITES[0])
    assert set(answers) == {recorded}


def test_a_missing_recording_is_a_fault_that_no_retry_heals(tmp_path):
    port = ExternalPort("user", mode="replay", store=tmp_path / "none")
    with pytest.raises(EnvFault, match="user: no recording for request .*k1") as caught:
        port.call("a", SITES[0])
    assert not caught.value.retryable


@pytest.mark.parametrize("times", range(MAX_ATTEMPTS))
def test_a_retryable_fault_is_tried_again_after_a_growing_wait(times):
    waits: list[float] = []
    service = Flaky(times)
    assert ExternalPort("user", service, wait=waits.append).call("a", SITES[0]) == "fine"
    assert service.calls == times + 1 and len(waits) == times
    for attempt, pause in enumerate(waits):
        assert 0.25 * 2**attempt <= pause <= 0.75 * 2**attempt


def test_five_attempts_and_no_more():
    waits: list[float] = []
    service = Flaky(99)
    with pytest.raises(EnvFault, match=r"user: busy \(attempt 5 of 5\)") as caught:
        ExternalPort("user", service, wait=waits.append).call("a", SITES[0])
    assert (service.calls, len(waits), caught.value.retryable) == (5, 4, True)


def test_waits_are_jittered_by_the_key():
    def waits(site):
        kept: list[float] = []
        ExternalPort("user", Flaky(4), wait=kept.append).call("a", site)
        return kept

    assert waits(SITES[0]) == waits(SITES[0]) != waits(SITES[1])


def test_a_fault_that_no_retry_heals_is_raised_at_once():
    waits: list[float] = []
    service = Flaky(1, retryable=False)
    with pytest.raises(EnvFault) as caught:
        ExternalPort("user", service, wait=waits.append).call("a", SITES[0])
    assert (service.calls, waits, caught.value.retryable) == (1, [], False)


def test_no_wait_goes_beyond_the_deadline():
    waits: list[float] = []
    service = Flaky(99)
    with pytest.raises(EnvFault, match="attempt 1 of 5"):
        ExternalPort("user", service, deadline_seconds=0.2, wait=waits.append).call("a", SITES[0])
    assert (service.calls, waits) == (1, [])
    service = Flaky(99)
    with pytest.raises(EnvFault, match="busy"):
        ExternalPort("user", service, deadline_seconds=0.9, wait=waits.append).call("a", SITES[0])
    assert 2 <= service.calls <= 3 and all(pause <= 0.9 for pause in waits)


def test_a_faulty_call_is_not_recorded(tmp_path):
    port = ExternalPort("user", Flaky(1, retryable=False), mode="record", store=tmp_path / "s")
    with pytest.raises(EnvFault):
        port.call("a", SITES[0])
    assert port.call("a", SITES[0]) == "fine"
    port.close()


def test_an_oversize_answer_is_a_fault_and_is_not_recorded(tmp_path):
    port = ExternalPort("user", lambda request: "é" * request, mode="record", store=tmp_path / "s", max_bytes=10)
    assert port.call(4, SITES[0]) == "éééé"
    with pytest.raises(EnvFault, match="larger than 10 bytes") as caught:
        port.call(5, SITES[0])
    assert not caught.value.retryable
    port.close()
    with pytest.raises(EnvFault, match="no recording"):
        ExternalPort("user", mode="replay", store=tmp_path / "s").call(5, SITES[0])


def test_a_bug_of_the_service_propagates():
    with pytest.raises(ZeroDivisionError):
        ExternalPort("user", lambda request: 1 / 0, wait=lambda pause: None).call("a", SITES[0])


def test_a_port_that_cannot_work_is_refused(tmp_path):
    for mode in ("live", "record"):
        with pytest.raises(UsageError, match="needs a backend"):
            ExternalPort("user", mode=mode, store=tmp_path / "s")
    for mode in ("record", "replay"):
        with pytest.raises(UsageError, match="needs store"):
            ExternalPort("user", Counter(), mode=mode)
    assert not (tmp_path / "s").exists()
