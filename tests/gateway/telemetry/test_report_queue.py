"""Reports that wait for a thread: all are recorded, as they were, whatever goes wrong with one."""

from __future__ import annotations

import logging
import threading

import pytest

from segue.conversation.blocks import Text
from segue.conversation.message import Message
from segue.gateway.telemetry.report import RequestReport
from segue.gateway.telemetry.reporters import MOST, SECONDS, ReportQueue


def test_all_reports_are_recorded_in_order_when_it_is_closed() -> None:
    recorded: list[str] = []
    queue = ReportQueue(lambda report: recorded.append(report.request_id))
    for number in range(50):
        queue.put(RequestReport(request_id=str(number)))
    queue.close()
    assert recorded == [str(number) for number in range(50)]


def test_reports_are_recorded_soon_and_again_after_a_pause() -> None:
    arrived = threading.Semaphore(0)
    queue = ReportQueue(lambda _: arrived.release())
    for _ in range(2):
        queue.put(RequestReport(request_id="1"))
        assert arrived.acquire(timeout=SECONDS + 5)
    queue.close()


def test_a_report_is_recorded_as_it_was() -> None:
    recorded: list[str] = []
    queue = ReportQueue(lambda report: recorded.append(report.operation))
    report = RequestReport(request_id="1", operation="chat")
    queue.put(report)
    report.operation = "background"
    queue.put(report)
    queue.close()
    assert recorded == ["chat", "background"]


def test_what_was_said_is_kept_only_for_those_who_read_it() -> None:
    said = Message(speaker="user", blocks=(Text("hello"),))
    answered = Message(speaker="model", blocks=(Text("hi"),))
    report = RequestReport(request_id="1", messages=(said,), answer=answered)
    for content, kept in ((False, ((), None)), (True, ((said,), answered))):
        recorded: list[RequestReport] = []
        queue = ReportQueue(recorded.append, content=content)
        queue.put(report)
        queue.close()
        assert [(one.messages, one.answer) for one in recorded] == [kept]
    assert report.messages == (said,), "others read it still"


def test_a_report_that_fails_is_logged_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    recorded: list[str] = []

    def record(report: RequestReport) -> None:
        if report.request_id == "bad":
            raise ValueError("no such thing")
        recorded.append(report.request_id)

    queue = ReportQueue(record)
    with caplog.at_level(logging.ERROR, logger="segue.gateway"):
        for name in ("first", "bad", "last"):
            queue.put(RequestReport(request_id=name))
        queue.close()
    assert recorded == ["first", "last"]
    assert "bad" in caplog.text


def test_a_thread_that_cannot_keep_up_costs_no_memory_without_end() -> None:
    recorded: list[str] = []
    queue = ReportQueue(lambda report: recorded.append(report.request_id))
    for number in range(MOST + 100):
        queue.put(RequestReport(request_id=str(number)))
    queue.close()
    assert MOST <= len(recorded) <= MOST + 1, "one may be in work"
    assert recorded[0] == "0"


def test_one_that_was_never_used_closes_at_once() -> None:
    ReportQueue(lambda _: None).close()
