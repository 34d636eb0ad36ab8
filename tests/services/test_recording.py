"""The port to outside services: keys, recordings, attempts, faults."""

import copy
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs import EnvFault, UsageError
from agent_envs.base.jsonl_log import read_journal
from agent_envs.services.recording import (
    LONGEST_ASKED_PAUSE_SECONDS,
    MAX_ATTEMPTS,
    CallSite,
    ExternalPort,
    Recording,
    read_answers,
)

TOO_DEEP: list[object] = []
for _ in range(100_000):
    TOO_DEEP = [TOO_DEEP]


class Counter:
    """A service that answers with the number of the call."""

    def __init__(self):
        self.calls = 0

    def __call__(self, request, seconds):
        self.calls += 1
        return {"call": self.calls, "request": request}


class Flaky:
    """Fails `times` times."""

    def __init__(self, times, retryable=True, wait_seconds=0.0):
        self.times, self.calls = times, 0
        self.fault = EnvFault("busy", retryable, wait_seconds)

    def __call__(self, request, seconds):
        self.calls += 1
        if self.calls <= self.times:
            raise self.fault
        return "fine"


class Time:
    """A clock that only waits and work move."""

    def __init__(self):
        self.now, self.waits = 1000.0, []

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.waits.append(seconds)
        self.now += seconds


def timed(service, **arguments):
    time = Time()
    return ExternalPort("user", service, wait=time.wait, clock=time, **arguments), time


SITES = [CallSite("k1"), CallSite("k1", "b"), CallSite("k1", "", 1), CallSite("k2"), CallSite("k2", "b", 1)]


def test_a_recording_replays_without_the_service(tmp_path):
    with Recording(tmp_path / "store", "record") as recording:
        port = ExternalPort("user", Counter(), recording=recording)
        said = {site: port.call({"q": "é \ud800"}, site) for site in SITES}
        other = port.call({"q": "?"}, SITES[0])
    replayed = ExternalPort("user", recording=Recording(tmp_path / "store", "replay"))
    assert {site: replayed.call({"q": "é \ud800"}, site) for site in reversed(SITES)} == said
    assert replayed.call({"q": "?"}, SITES[0]) == other
    assert len({answer["call"] for answer in said.values()}) == len(SITES)


def test_ports_of_one_run_share_a_file_and_not_their_answers(tmp_path):
    with Recording(tmp_path / "s", "record") as recording:
        said = [ExternalPort(name, Counter(), recording=recording).call(name, SITES[0]) for name in ("user", "judge")]
    with Recording(tmp_path / "s", "replay") as recording:
        again = [ExternalPort(name, recording=recording).call(name, SITES[0]) for name in ("user", "judge")]
        with pytest.raises(EnvFault, match="no recording"):
            ExternalPort("judge", recording=recording).call("user", SITES[0])
    assert said == again


def test_equal_starts_draw_independent_samples_and_a_repeated_call_does_not():
    port = ExternalPort("user", Counter())
    assert len({port.key("hello", CallSite(f"k{group}")) for group in range(8)}) == 8
    assert len({port.key("hello", site) for site in SITES}) == len(SITES)
    assert port.key({"a": 1, "b": 2}, SITES[0]) == port.key({"b": 2, "a": 1}, SITES[0])
    assert port.key("a", SITES[0]) != ExternalPort("judge", Counter()).key("a", SITES[0])


def test_a_deterministic_port_is_asked_once_for_all_episodes(tmp_path):
    service = Counter()
    with Recording(tmp_path / "s", "record") as recording:
        port = ExternalPort("judge", service, recording=recording, deterministic=True)
        assert {port.call("same", site)["call"] for site in SITES} == {1}
        assert port.call("other", SITES[0])["call"] == 2 and service.calls == 2


def test_a_recording_goes_on_where_it_was_cut(tmp_path):
    for start in (1, 2):
        service = Counter()
        with Recording(tmp_path / "s", "record") as recording:
            ExternalPort("user", service, recording=recording).call("a", SITES[0])
        assert service.calls == (1 if start == 1 else 0)


def test_a_live_port_calls_every_time():
    service = Counter()
    live = ExternalPort("user", service, deterministic=True)
    live.call("a", SITES[0]), live.call("a", SITES[0])
    assert service.calls == 2


def test_what_is_recorded_is_what_was_returned(tmp_path):
    with Recording(tmp_path / "s", "record") as recording:
        port = ExternalPort("user", lambda request, seconds: {"pair": (1, 2)}, recording=recording)
        first = port.call("a", SITES[0])
        first["pair"] = "spoiled by the caller"
        again = port.call("a", SITES[0])
        again["pair"].append("spoiled again")
        fresh = port.call("a", SITES[1])
    replayed = ExternalPort("user", recording=Recording(tmp_path / "s", "replay"))
    assert fresh == replayed.call("a", SITES[0]) == replayed.call("a", SITES[1]) == {"pair": [1, 2]}


def test_an_answer_of_null_is_an_answer(tmp_path):
    with Recording(tmp_path / "s", "record") as recording:
        ExternalPort("user", lambda request, seconds: None, recording=recording).call("a", SITES[0])
    replayed = ExternalPort("user", recording=Recording(tmp_path / "s", "replay"))
    assert replayed.call("a", SITES[0]) is None


def test_two_threads_that_ask_at_once_get_one_answer(tmp_path):
    gate = threading.Barrier(2)
    numbers = iter(range(10))

    def service(request, seconds):
        gate.wait(10)
        return next(numbers)

    answers = []
    with Recording(tmp_path / "s", "record") as recording:
        port = ExternalPort("judge", service, recording=recording, deterministic=True)
        threads = [threading.Thread(target=lambda: answers.append(port.call("a", SITES[0]))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    replay = Recording(tmp_path / "s", "replay")
    recorded = ExternalPort("judge", recording=replay, deterministic=True).call("a", SITES[0])
    assert answers == [recorded, recorded]


def test_a_discarded_answer_is_asked_for_again_and_replayed_until_then(tmp_path):
    path, service = tmp_path / "s", Counter()
    with Recording(path, "record") as recording:
        port = ExternalPort("user", service, recording=recording)
        first = port.call("a", SITES[0])
        port.discard("a", SITES[0], {"call": 0})  # not what is recorded
        assert port.call("a", SITES[0]) == first
        port.discard("a", SITES[0], first)
        port.discard("a", SITES[0], first)
        assert port.key("a", SITES[0]) not in recording
    with Recording(path, "replay") as recording:
        replayed = ExternalPort("user", recording=recording)
        replayed.discard("a", SITES[0], first)
        assert replayed.call("a", SITES[0]) == first
    with Recording(path, "record") as recording:
        assert ExternalPort("user", service, recording=recording).call("a", SITES[0])["call"] == 2
    for mode in ("replay", "record"):
        with Recording(path, mode) as recording:
            assert ExternalPort("user", service, recording=recording).call("a", SITES[0])["call"] == 2
    assert [row["response"]["call"] for row in read_answers(path)] == [1, 2] and len(list(read_journal(path))) == 3
    ExternalPort("user", service).discard("a", SITES[0], first)  # nothing is recorded


def test_a_recording_is_one_file_of_one_process_and_its_copies_are_itself(tmp_path):
    with Recording(tmp_path / "s", "record") as recording:
        assert copy.deepcopy({"recording": recording})["recording"] is recording
        with pytest.raises(UsageError, match="being written"):
            Recording(tmp_path / "s", "record")
        assert recording.find("unknown") is None and "unknown" not in recording
        assert recording.keep("k", "user", "ask", [1]) == [1] == recording.keep("k", "user", "ask", [2])
    replay = Recording(tmp_path / "s", "replay")
    assert replay.find("k") == [1]
    with pytest.raises(UsageError, match="open for replay"):
        replay.keep("other", "user", "ask", 1)
    with pytest.raises(UsageError, match="no recording to replay"):
        Recording(tmp_path / "none", "replay")
    with pytest.raises(UsageError, match="the modes are"):
        Recording(tmp_path / "none", "live")
    assert not (tmp_path / "none").exists()


def test_a_missing_recording_is_a_fault_that_no_retry_heals(tmp_path):
    Recording(tmp_path / "s", "record").close()
    port = ExternalPort("user", Counter(), recording=Recording(tmp_path / "s", "replay"))
    with pytest.raises(EnvFault, match="user: no recording for request [0-9a-f]{12} at .*k1") as caught:
        port.call("a", SITES[0])
    assert not caught.value.retryable


@pytest.mark.parametrize("times", range(MAX_ATTEMPTS))
def test_a_retryable_fault_is_tried_again_after_a_growing_wait(times):
    service = Flaky(times)
    port, time = timed(service)
    assert port.call("a", SITES[0]) == "fine"
    assert service.calls == times + 1 and len(time.waits) == times
    assert all(0 <= pause <= 2**attempt for attempt, pause in enumerate(time.waits))


def test_waits_fill_their_range():
    kept = []
    for number in range(200):
        port, time = timed(Flaky(4))
        port.call("a", CallSite(f"k{number}"))
        kept.append(time.waits[3] / 8)
    assert min(kept) < 0.1 and max(kept) > 0.9 and 0.4 < sum(kept) / len(kept) < 0.6


def test_five_attempts_and_no_more():
    service = Flaky(99, wait_seconds=0.5)
    port, time = timed(service)
    with pytest.raises(EnvFault, match=r"^user: busy \(attempt 5 of 5\)$") as caught:
        port.call("a", SITES[0])
    assert (service.calls, len(time.waits)) == (5, 4)
    assert (caught.value.retryable, caught.value.wait_seconds) == (True, 0.5)


def test_waits_are_jittered_by_the_key():
    def waits(site):
        port, time = timed(Flaky(4))
        port.call("a", site)
        return time.waits

    assert waits(SITES[0]) == waits(SITES[0]) != waits(SITES[1])


@pytest.mark.parametrize(
    "asked, low, high", [(7.0, 7.0, 8.0), (1e9, LONGEST_ASKED_PAUSE_SECONDS, 61.0), (-5.0, 0.0, 1.0)]
)
def test_what_the_service_asks_for_is_waited_up_to_a_cap(asked, low, high):
    port, time = timed(Flaky(1, wait_seconds=asked))
    assert port.call("a", SITES[0]) == "fine"
    assert low <= time.waits[0] <= high


def test_a_fault_that_no_retry_heals_is_raised_at_once():
    service = Flaky(1, retryable=False)
    port, time = timed(service)
    with pytest.raises(EnvFault, match=r"attempt 1 of 5\)$") as caught:
        port.call("a", SITES[0])
    assert (service.calls, time.waits, caught.value.retryable) == (1, [], False)


def test_a_wait_that_would_pass_the_deadline_is_not_begun():
    service = Flaky(99, wait_seconds=30.0)
    port, time = timed(service, deadline_seconds=20.0)
    with pytest.raises(EnvFault, match=r"attempt 1 of 5; another would start after the deadline of 20 s\)") as caught:
        port.call("a", SITES[0])
    assert (service.calls, time.waits, caught.value.retryable) == (1, [], True)


def test_a_sleep_that_lasts_too_long_ends_the_call():
    service, time = Flaky(99), Time()
    port = ExternalPort("user", service, wait=lambda seconds: time.wait(seconds + 500), clock=time)
    with pytest.raises(EnvFault, match="attempt 1 of 5; another"):
        port.call("a", SITES[0])
    assert service.calls == 1


PLANS = st.lists(
    st.tuples(
        st.sampled_from(["answer", "heals", "stays", "too large", "too deep"]),
        st.floats(0, 1),
        st.one_of(st.just(0.0), st.floats(-10, 1e6)),
    ),
    max_size=8,
)


@given(PLANS, st.floats(0.1, 300), st.floats(0.1, 100))
def test_any_sequence_ends_in_the_answer_or_a_fault_in_time(plan, deadline_seconds, attempt_seconds):
    time, given_seconds = Time(), []

    def service(request, seconds):
        kind, share, asked = plan[len(given_seconds)] if len(given_seconds) < len(plan) else ("heals", 1.0, 0.0)
        given_seconds.append(seconds)
        assert 0 < seconds <= attempt_seconds and time.now + seconds <= 1000 + deadline_seconds + 1e-6
        time.now += share * seconds
        if kind in ("heals", "stays"):
            raise EnvFault(kind, kind == "heals", asked)
        return {"answer": "fine", "too large": "x" * 200, "too deep": TOO_DEEP}[kind]

    limits = {"deadline_seconds": deadline_seconds, "attempt_seconds": attempt_seconds, "max_bytes": 100}
    port = ExternalPort("user", service, wait=time.wait, clock=time, **limits)
    try:
        assert port.call("a", SITES[0]) == "fine"
        assert plan[len(given_seconds) - 1][0] == "answer"
    except EnvFault as fault:
        assert fault.cause.startswith("user: ") and f"(attempt {len(given_seconds)} of 5" in fault.cause
        assert (len(given_seconds), fault.retryable) == (5, True) or not fault.retryable or "deadline" in fault.cause
    assert 1 <= len(given_seconds) <= MAX_ATTEMPTS and time.now <= 1000 + deadline_seconds + 1e-6


def test_a_faulty_call_is_not_recorded(tmp_path):
    with Recording(tmp_path / "s", "record") as recording:
        port = ExternalPort("user", Flaky(1, retryable=False), recording=recording)
        with pytest.raises(EnvFault):
            port.call("a", SITES[0])
        assert port.call("a", SITES[0]) == "fine"


def test_an_oversize_answer_is_a_fault_and_is_not_recorded(tmp_path):
    with Recording(tmp_path / "s", "record") as recording:
        port = ExternalPort("user", lambda request, seconds: "é" * request, recording=recording, max_bytes=10)
        assert port.call(4, SITES[0]) == "éééé"
        with pytest.raises(EnvFault, match="larger than 10 bytes") as caught:
            port.call(5, SITES[0])
    assert not caught.value.retryable
    with pytest.raises(EnvFault, match="no recording"):
        ExternalPort("user", recording=Recording(tmp_path / "s", "replay")).call(5, SITES[0])


@pytest.mark.parametrize("answer", [float("nan"), {1, 2}, b"bytes"], ids=repr)
def test_an_answer_that_is_no_json_is_a_bug_of_the_service(answer):
    with pytest.raises((ValueError, TypeError)):
        timed(lambda request, seconds: answer)[0].call("a", SITES[0])


def test_a_bug_of_the_service_propagates(tmp_path):
    with Recording(tmp_path / "s", "record") as recording:
        port = ExternalPort("user", lambda request, seconds: 1 / 0, recording=recording)
        with pytest.raises(ZeroDivisionError):
            port.call("a", SITES[0])
        assert port.key("a", SITES[0]) not in recording


def test_closing_a_port_closes_its_service_and_leaves_the_recording_open(tmp_path):
    class Service(Counter):
        closed = False

        def close(self):
            self.closed = True

    service = Service()
    with Recording(tmp_path / "s", "record") as recording:
        ExternalPort("user", service, recording=recording).close()
        ExternalPort("user", Counter(), recording=recording).close()
        assert service.closed and recording.keep("k", "user", 1, 2) == 2


def test_a_port_that_cannot_work_is_refused(tmp_path):
    with pytest.raises(UsageError, match="needs a backend"):
        ExternalPort("user")
    with Recording(tmp_path / "s", "record") as recording:
        with pytest.raises(UsageError, match="needs a backend"):
            ExternalPort("user", recording=recording)
        port = ExternalPort("user", recording=Recording(tmp_path / "s", "replay"))
        port.recording = recording
        with pytest.raises(UsageError, match="has no backend"):
            port.call("a", SITES[0])


def test_an_overload_of_minutes_is_waited_out_by_all_calls_together():
    """Two calls in a row meet it: neither is given up after five answers, and the second begins no pauses of its own."""
    service, made = Flaky(12), Counter()
    service.fault.overloaded = True
    port, time = timed(
        lambda request, seconds: (made(request, seconds), service(request, seconds))[1], deadline_seconds=600.0
    )
    with pytest.warns(UserWarning, match="user is overloaded: calls to it wait, up to 60 s"):
        assert port.call("a", SITES[0]) == "fine"
    assert made.calls == 13 and 300 < sum(time.waits) < 600 and max(time.waits) <= 61
    assert port.call("b", SITES[0]) == "fine" and len(time.waits) == 12
    service.calls = 11
    assert port.call("c", SITES[0]) == "fine" and time.waits[12] <= 3  # a later one begins small


def test_an_overload_ends_a_call_at_its_deadline():
    service = Flaky(99)
    service.fault.overloaded = True
    port, time = timed(service, deadline_seconds=20.0)
    with pytest.warns(UserWarning), pytest.raises(EnvFault, match=r"deadline of 20 s\)$"):
        port.call("a", SITES[0])
    assert sum(time.waits) < 20 and service.calls >= 4
