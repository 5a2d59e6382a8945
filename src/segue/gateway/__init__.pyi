# Written by python -m scripts.namespaces --write

from segue.gateway.asgi import GatewayApplication, gateway_app
from segue.gateway.httpx_transport import InProcessTransport, in_process_transport

__all__ = [
    "GatewayApplication",
    "InProcessTransport",
    "gateway_app",
    "in_process_transport",
]
