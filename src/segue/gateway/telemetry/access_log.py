"""One line for each request of the gateway: who, what, how long, how it ended. Never any content, query or key."""

from __future__ import annotations

import asyncio
import sys
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from segue.gateway.telemetry.report import RequestReport
from segue.text.terminal_text import safe_json, sanitised

if TYPE_CHECKING:
    from collections.abc import Callable

LogForm: TypeAlias = Literal["text", "json", "off"]


_LOGGED: Final = tuple(
    name
    for name in RequestReport.__struct_fields__
    if name not in ("dollars", "began", "trace_parent", "tries", "expenses", "messages", "answer")
)
"""What a line may hold: no content, and nothing that belongs to other systems."""


def json_line(report: RequestReport, now: float) -> str:
    """What is empty is omitted."""
    fields: dict[str, Any] = {"time": round(now, 3)}
    for name in _LOGGED:
        value = getattr(report, name)
        if isinstance(value, msgspec.Struct):
            value = msgspec.to_builtins(value)
        kept = round(value, 4) if isinstance(value, float) else value
        if kept not in (None, "", 0, {}, False):
            fields[name] = kept
    return safe_json(msgspec.json.encode(fields).decode())


def text_line(report: RequestReport, now: float) -> str:
    first = report.first_content
    facts = [
        f"{_clock(int(now))} {report.status or '---'} {report.method} {report.path}",
        " → ".join(name for name in (report.asked, report.route) if name),
        f"{report.seconds:.2f} s" + (f", first content {first:.2f} s" if first is not None else ""),
        f"caller {report.caller}" if report.caller else "",
        f"conversation {report.conversation}" if report.conversation else "",
        _counts("repairs", report.repairs),
        _counts("losses", report.losses),
        f"failovers {report.failovers}" if report.failovers else "",
        f"error {report.error}" if report.error else "",
        "client gone" if report.client_gone else "",
        report.request_id,
    ]
    line = "  ".join([fact for fact in facts if fact])
    # Most lines hold nothing that could break one or mislead its reader.
    return line if line.isprintable() else " ".join(sanitised(line).splitlines())


@lru_cache(maxsize=2)
def _clock(second: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(second))


def _counts(title: str, counts: dict[str, int]) -> str:
    return f"{title} {', '.join(f'{kind} {count}' for kind, count in counts.items())}" if counts else ""


def log_writer(form: LogForm) -> Callable[[RequestReport], None] | None:
    """Writes to the standard error; None if the log is off."""
    if form == "off":
        return None
    return _LogWriter(json_line if form == "json" else text_line)


class _LogWriter:
    """Writes the lines of one moment together: a write of its own would cost a busy gateway more than the line."""

    def __init__(self, line: Callable[[RequestReport, float], str]) -> None:
        self._line = line
        self._waiting: list[str] = []

    def __call__(self, report: RequestReport) -> None:
        self._waiting.append(self._line(report, time.time()) + "\n")
        if len(self._waiting) > 1:
            return
        try:
            asyncio.get_running_loop().call_soon(self._write)
        except RuntimeError:  # no loop runs: nothing else will come
            self._write()

    def _write(self) -> None:
        lines, self._waiting = self._waiting, []
        sys.stderr.write("".join(lines))
        sys.stderr.flush()
