# Written by python -m scripts.namespaces --write

from segue.transports.asgi import AsgiTransport
from segue.transports.http import HttpTransport
from segue.transports.recordings import RecordingTransport, ReplayingTransport
from segue.transports.transport import Timeouts, Transport, WireRequest, WireResponse

__all__ = [
    "AsgiTransport",
    "HttpTransport",
    "RecordingTransport",
    "ReplayingTransport",
    "Timeouts",
    "Transport",
    "WireRequest",
    "WireResponse",
]
