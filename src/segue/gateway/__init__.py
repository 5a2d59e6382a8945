"""The gateway: clients of any API, providers of any API, and conversations that survive a switch.

`gateway_app()` is an ASGI application: serve it, or mount it below a path of your own. `in_process_transport()` connects the
clients of your own program to it, without a server and without a port:

    client = OpenAI(http_client=httpx2.Client(transport=in_process_transport()), api_key="any")
"""

from __future__ import annotations

from segue.namespace import public_names

_HOMES = {
    "segue.gateway.asgi": "GatewayApplication gateway_app",
    "segue.gateway.httpx_transport": "InProcessTransport in_process_transport",
}
__all__, __getattr__, __dir__ = public_names(__name__, _HOMES)
