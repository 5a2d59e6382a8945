"""Claude Platform on AWS: Anthropic's own API, signed or with a key, for one workspace.

All of Anthropic's paths, with AWS's signatures and the header of a workspace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.emulators.anthropic import routes
from segue.emulators.anthropic.errors import ERRORS
from segue.emulators.clouds.bedrock_anthropic import at_aws
from segue.emulators.rules import Refusal, RefusedError, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator
    from segue.emulators.http import Handler, Request, Response, Route

__all__ = ["ERRORS", "ROUTES"]


SERVICE = "aws-external-anthropic"
WORKSPACE = "anthropic-workspace-id"


@rule("AWS-02")
def _asked(handler: Handler) -> Handler:
    def asked(request: Request, emulator: Emulator) -> Response:
        if not request.headers.get(WORKSPACE):
            context = emulator.context(request, provider="anthropic")
            raise RefusedError(Refusal("AWS-02", f"{WORKSPACE}: header is required"), context)
        return handler(request, emulator)

    return at_aws(asked, SERVICE)


ROUTES: list[Route] = [(method, pattern, _asked(handler)) for method, pattern, handler in routes.ROUTES]
