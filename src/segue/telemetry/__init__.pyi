# Written by python -m scripts.namespaces --write

from segue.telemetry.switch import instrument, uninstrument

__all__ = [
    "instrument",
    "uninstrument",
]
