"""Who watches the gateway at work, and shows pages about it: an inspector. Without one, none of this costs anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from segue.exchange.attempt import Attempt
    from segue.gateway.app import Gateway
    from segue.gateway.conversations.turns import ClientTurn
    from segue.gateway.requests.web import Receive, ResponseWriter, WebRequest
    from segue.gateway.telemetry.report import RequestReport


class GatewayWatcher(Protocol):
    """Called on the event loop, between a client and its reply: it takes references, and works on them later."""

    @property
    def keeps_bodies(self) -> bool:
        """Whether it wants what a client sent when the reply has ended: else that is freed when the reply begins."""

    def attach(self, gateway: Gateway) -> None:
        """The gateway that it watches from now on: another one after the settings were read anew."""

    def began(self, report: RequestReport, turn: ClientTurn, switched: str) -> None:
        """A request for a reply was understood. `switched`: the model that an operator chose; empty if none did."""

    def asks(self, report: RequestReport, attempt: Attempt) -> None:
        """It is put to a route."""

    def ended(self, report: RequestReport) -> None:
        """A request of any kind came to its end, well or not."""

    def serves(self, head: WebRequest) -> bool:
        """Whether it answers this request itself, with a page."""

    async def serve(
        self, scope: MutableMapping[str, Any], head: WebRequest, receive: Receive, writer: ResponseWriter
    ) -> None: ...

    async def detach(self, gateway: Gateway) -> None:
        """The gateway is closed. Another may be attached already."""
