"""One line after a turn: time, tokens, cost, repairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segue.cli.one_shot.json_output import Tokens
    from segue.conversation.usage import Usage


def summary_line(model: str, usage: Usage | Tokens, *, cost: float | None = None, repairs: int = 0) -> str:
    """`openai/gpt-5 · 4.2k in (3.9k cached) 310 out · $0.02 · 2 repairs`; unknown parts are not shown."""
    tokens = f"{_read(usage)} {_written(usage)}{_mark(usage)}".strip()
    parts = [model, tokens, "" if cost is None else dollars(cost)]
    parts += [counted(repairs, "repair")] if repairs else []
    return " · ".join(part for part in parts if part)


def turn_line(
    seconds: float,
    usage: Usage,
    *,
    model: str = "",
    calls: int = 0,
    cost: float | None = None,
    repairs: int = 0,
) -> str:
    """`6 s · 2 calls · 905 in, 176 out · $0.0054`; "" if there was no reply."""
    tokens = ", ".join(part for part in (_read(usage), _written(usage)) if part)
    if not tokens:
        return ""
    tokens += _mark(usage)
    called = counted(calls, "call") if calls else ""
    changed = f"{repairs} adjusted · /view" if repairs else ""
    parts = [model, f"{seconds:.0f} s", called, tokens, "" if cost is None else dollars(cost), changed]
    return " · ".join(part for part in parts if part)


def _read(usage: Usage | Tokens) -> str:
    cached = f" ({short(usage.cached_tokens)} cached)" if usage.cached_tokens else ""
    return "" if usage.input_tokens is None else f"{short(usage.input_tokens)} in{cached}"


def _written(usage: Usage | Tokens) -> str:
    return "" if usage.output_tokens is None else f"{short(usage.output_tokens)} out"


def _mark(usage: Usage | Tokens) -> str:
    return " (estimate)" if usage.estimated else ""


def counted(count: int, what: str) -> str:
    """`1 message`, `2 messages`, `3 items of another API`."""
    head, of, tail = what.partition(" of ")
    return f"{count} {head}{'' if count == 1 else 's'}{of}{tail}"


def short(count: int) -> str:
    """`310`, `4.2k`, `1.3M`."""
    if count < 1000:
        return str(count)
    if count < 999_500:
        return f"{count / 1000:.1f}k" if count < 99_950 else f"{count / 1000:.0f}k"
    return f"{count / 1_000_000:.1f}M"


def dollars(cost: float) -> str:
    """Cents, with more digits for smaller amounts."""
    if cost == 0 or cost >= 0.01:
        return f"${cost:.2f}"
    return f"${cost:.4f}" if cost >= 0.0001 else "<$0.0001"
