"""Two tools for the examples in README and docs: `segue -T docs/examples/travel.py:weather`."""

from __future__ import annotations

import time

from segue import tool

WEATHER = {"Oslo": "rain, 9 °C", "Rome": "sun, 24 °C"}


@tool(effect="read")
def weather(city: str) -> str:
    """Get the weather of a city.

    Args:
        city: In English.
    """
    return WEATHER.get(city, "fog, 12 °C")


@tool(effect="read")
def flights(start: str, to: str, seconds: float = 0.2) -> str:
    """Find flights between two cities.

    Args:
        start: Where from.
        to: Where to.
        seconds: How long the search may take.
    """
    time.sleep(seconds)
    return f"{start} to {to}: 08:10, 14:35"
