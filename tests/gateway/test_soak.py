"""The judges of `make soak` see what is lost, what is not counted as it should be and memory that grows; and a short soak finds none."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from gateway.soak import grown, soak, uncounted
from gateway.soak_counts import Asked, Comparison, Logged, LogReader, Reported, compare

_EACH = {"whole": (10, 40), "leaves": (10, 200), "hangs-up": (10, 5), "error": (10, 5)}


def _compared(kind: str, served: Reported | None, logged: Logged | None) -> Comparison:
    return compare(
        {"soak-1": Asked(kind, 400)},
        {"soak-1": served} if served is not None else {},
        {"soak-1": logged} if logged is not None else {},
        _EACH,
    )


def _logged(read: int, written: int, *, estimated: bool = False, tries: int = 1, cause: str = "") -> Logged:
    return Logged((read, written), estimated, tries, cause)


def test_a_whole_reply_is_counted_to_the_token() -> None:
    whole = Reported(tries=1, whole=1)
    assert _compared("whole", whole, _logged(10, 40)) == Comparison([], 1)
    for other in (_logged(10, 39), _logged(11, 40), _logged(20, 80), _logged(0, 0)):
        assert len(_compared("whole", whole, other).wrong) == 1


def test_a_failed_try_is_counted_beside_the_reply_with_its_cause() -> None:
    found = _compared(
        "whole",
        Reported(tries=2, whole=1),
        _logged(110, 45, estimated=True, tries=2, cause="connection_broken"),
    )
    assert found.wrong == []
    assert found.estimated == Counter({"whole, connection_broken": 1})
    assert found.surplus == {"whole, connection_broken": [100, 5]}


@pytest.mark.parametrize(
    ("served", "logged"),
    [
        (Reported(tries=2, whole=1), _logged(110, 45, estimated=True, tries=2)),
        (Reported(tries=2, whole=1), _logged(611, 45, estimated=True, tries=2, cause="connection_broken")),
        (Reported(tries=1, whole=1), _logged(110, 45, estimated=True, cause="connection_broken")),
        (
            Reported(tries=2, refused=1, whole=1),
            _logged(11, 40, estimated=True, tries=2, cause="connection_broken"),
        ),
        (Reported(tries=3, whole=1), _logged(110, 45, estimated=True, tries=2, cause="connection_broken")),
    ],
    ids=["without a cause", "more than was sent", "for no other try", "for a refused try", "a try too few"],
)
def test_an_estimate_that_is_not_explained_is_found(served: Reported, logged: Logged) -> None:
    assert len(_compared("whole", served, logged).wrong) == 1


def test_a_client_that_left_is_counted_by_an_estimate() -> None:
    served = Reported(tries=1, whole=1)
    assert _compared("leaves", served, _logged(120, 30, estimated=True, cause="client left")).wrong == []
    assert len(_compared("leaves", Reported(tries=1), _logged(0, 0)).wrong) == 1
    assert len(_compared("leaves", Reported(tries=1), _logged(10, 30)).wrong) == 1


def test_a_request_that_is_not_logged_is_found() -> None:
    assert len(_compared("error", Reported(tries=1, refused=1), None).wrong) == 1
    assert len(_compared("hangs-up", Reported(tries=1), None).wrong) == 1
    assert _compared("hangs-up", None, None).wrong == []


def test_a_request_that_nobody_sent_is_found() -> None:
    assert len(compare({}, {}, {"soak-1": _logged(10, 40)}, _EACH).wrong) == 1


def test_usage_that_is_not_the_sum_of_the_log_is_found() -> None:
    sent = Counter({"whole": 2})
    logged = [("whole", _logged(10, 40)), ("whole", _logged(120, 40, estimated=True))]

    def row(requests: int, read: int, written: int) -> dict[str, Any]:
        return {"asked": "soak-whole", "requests": requests, "input_tokens": read, "output_tokens": written}

    assert uncounted(sent, [row(1, 10, 40), row(1, 120, 40)], logged) == []
    for other in (row(2, 131, 80), row(2, 130, 79), row(3, 130, 80)):
        assert len(uncounted(sent, [other], logged)) == 1


def test_the_log_is_read() -> None:
    log = LogReader()
    usage = {"input_tokens": 10, "output_tokens": 40, "estimated": True}
    line = {"request_id": "soak-7", "usage": usage, "usage_estimated": True, "attempts": 2}
    line["warm_bytes"] = {"requests": 3, "tools": 4}
    failed = "Request soak-7, openai/gpt-4.1: It sent nothing for 15 s. (idle_timeout)\n"
    log.feed(["Serving at …\n", failed, json.dumps(line)])
    assert log.requests == {"soak-7": _logged(10, 40, estimated=True, tries=2, cause="idle_timeout")}
    assert (log.warm, log.faults) == (7, [])
    log.feed([json.dumps(line), "Traceback (most recent call last):\n"])
    assert len(log.faults) == 2


def test_memory_that_grows_in_the_end_is_found() -> None:
    assert grown([60, 80, 100, 110, 110, 112, 112, 111, 113]) == []
    assert len(grown([60, 80, 100, 110, 110, 112, 130, 140, 150])) == 1


@pytest.mark.timeout(60)
def test_nothing_is_lost_in_a_short_soak() -> None:
    found = soak(3.0, 0.3, looks=3)
    assert found.lost == []
    assert found.counts.exact > 0
    assert found.sent.total() > 0
