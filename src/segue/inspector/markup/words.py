"""Figures as people read them: numbers, money, times, sizes."""

from __future__ import annotations

import time
from typing import Final

from segue.inspector.markup.html import Element, e

NO_DATA: Final = "no data"
_LONG: Final = (("days", 86_400.0), ("h", 3600.0), ("min", 60.0))


def count(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def losses(number: int) -> str:
    """Of repairs: a loss is one too."""
    return f"{number:,} of them {'a loss' if number == 1 else 'losses'}"


def repairs(number: int, lost: int) -> str:
    return count(number, "repair") + (f", {losses(lost)}" if lost else "")


def thousands(number: int | None) -> str:
    return NO_DATA if number is None else f"{number:,}"


def short(number: int | None) -> str:
    """16, 47.3k, 1.1 M."""
    if number is None:
        return NO_DATA
    if number < 1000:
        return str(number)
    if number < 1_000_000:
        return f"{number / 1000:.1f}k" if number < 100_000 else f"{number / 1000:.0f}k"
    return f"{number / 1_000_000:.1f} M".replace(".0 ", " ")


def dollars(amount: float | None, places: int = 3) -> str:
    if amount is None:
        return NO_DATA
    if amount and abs(amount) < 0.5 * 10**-places:
        return f"< ${10**-places:.{places}f}"
    return f"${amount:,.{places}f}" if amount >= 0 else f"−${-amount:,.{places}f}"


def cost(amount: float | None, places: int = 3) -> str:
    """Of something that was used; `free` where nothing is charged."""
    return "free" if amount == 0 else dollars(amount, places)


def percent(share: float | None) -> str:
    """Never 100 % of what is less, nor 0 % of what is more."""
    if share is None:
        return NO_DATA
    shown = round(share * 100)
    if shown == 100 and share < 1:
        shown = 99
    return "< 1 %" if shown == 0 and share > 0 else f"{shown} %"


def seconds(value: float | None) -> str:
    if value is None:
        return NO_DATA
    if value < 0.0005:
        return "< 1 ms" if value > 0 else "0 s"
    if value < 0.0995:
        return f"{value * 1000:.0f} ms"
    if value < 0.9995:
        return f"{value:.2f} s"
    return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def size(number: int) -> str:
    if number < 1000:
        return f"{number} B"
    return f"{number / 1000:.1f} kB" if number < 1_000_000 else f"{number / 1_000_000:.1f} MB"


def megabytes(number: int) -> str:
    return f"{number / (1 << 20):.0f}"


def ago(moment: float, now: float) -> str:
    passed = now - moment
    if passed < 2:
        return "now"
    for unit, length in _LONG:
        if passed >= length * (2 if unit == "days" else 1):
            return f"{passed / length:.0f} {unit}"
    return f"{passed:.0f} s"


def moment(at: float, now: float | None = None) -> Element:
    """When it was, by the clock; or how long ago, if `now` is given. The whole time is in the element."""
    utc = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
    local = time.localtime(at)
    shown = time.strftime("%H:%M:%S", local) if now is None else ago(at, now)
    return e("time", shown, datetime=utc, title=time.strftime("%Y-%m-%d %H:%M:%S", local))


def clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def plain_text(value: str, most: int = 200) -> str:
    """One line of it."""
    line = " ".join(value[: most * 4].split())
    return line if len(line) <= most else line[: most - 1] + "…"
