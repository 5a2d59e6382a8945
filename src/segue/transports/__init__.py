"""The sockets: the only input and output below the runtime. A transport carries one request and brings one answer."""

from __future__ import annotations

from segue.namespace import public_names

_HOMES = {
    "segue.transports.asgi": "AsgiTransport",
    "segue.transports.http": "HttpTransport",
    "segue.transports.recordings": "RecordingTransport ReplayingTransport",
    "segue.transports.transport": "Timeouts Transport WireRequest WireResponse",
}
__all__, __getattr__, __dir__ = public_names(__name__, _HOMES)
