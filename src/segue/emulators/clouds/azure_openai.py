"""OpenAI's models at Microsoft: the v1 API and the older paths of deployments, with content filters.

`/openai/v1/…` and `/openai/deployments/{deployment}/…?api-version=`; a project's address knows no models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from segue.emulators.emulator import key_of
from segue.emulators.http import BadJsonError, Handler, Request, Response, Route, sse
from segue.emulators.model.model_facts import facts_for
from segue.emulators.openai_chat import routes as chat
from segue.emulators.openai_chat.errors import ERRORS
from segue.emulators.openai_responses import routes as responses
from segue.emulators.rules import Refusal, RefusedError, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.emulators.emulator import Emulator

__all__ = ["ERRORS", "FILTERED", "ROUTES"]

FILTERED = "something that the content filter refuses"
"""A prompt with these words is refused, as one that is against the policy."""
FILTERS = {
    "hate": {"filtered": False, "severity": "safe"},
    "violence": {"filtered": False, "severity": "safe"},
}


def _asked(handler: Handler) -> Handler:
    """The same request as OpenAI's own API gets it, if nothing of Azure's is wrong with it."""

    def asked(request: Request, emulator: Emulator) -> Response:
        signed_in(request, emulator)
        versioned(request, emulator)
        request = deployed(request, emulator)
        filtered(request, emulator)
        return with_filter_results(handler(request, emulator))

    return asked


@rule("AZR-01")
def signed_in(request: Request, emulator: Emulator) -> None:
    key = request.headers.get("api-key") or key_of(
        structs.replace(request, headers={"authorization": request.headers.get("authorization", "")})
    )
    if not key or (emulator.keys is not None and key not in emulator.keys):
        text = (
            "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for"
            " an active subscription and use a correct regional API endpoint for your resource."
        )
        raise _refused(
            request, emulator, Refusal("AZR-01", text, status=401, type="invalid_request_error", code="401")
        )


@rule("AZR-01")
def versioned(request: Request, emulator: Emulator) -> None:
    """The paths of deployments need a version, and v1 takes none but `preview`."""
    version = request.query.get("api-version")
    if "deployment" in request.params and not version:
        raise _refused(request, emulator, Refusal("AZR-01", "Resource not found", status=404, code="404"))
    if "deployment" not in request.params and version not in (None, "preview", "latest", "v1"):
        text = f"API version not supported: {version}"
        raise _refused(request, emulator, Refusal("AZR-01", text, code="BadRequest"))


@rule("AZR-01")
def deployed(request: Request, emulator: Emulator) -> Request:
    """The request with the model behind its deployment. `emulator.memory("azure")` may have other names for models."""
    try:
        body = request.json() if request.body else None
    except BadJsonError:
        return request  # the handler says so
    if not isinstance(body, dict):
        return request
    name = request.params.get("deployment") or body.get("model")
    if not isinstance(name, str):
        return request
    model = emulator.memory("azure").get("deployments", {}).get(name, name)
    if not facts_for("openai", str(model)):
        text = (
            "The API deployment for this resource does not exist. If you created the deployment within the last 5"
            " minutes, please wait a moment and try again."
        )
        raise _refused(request, emulator, Refusal("AZR-01", text, status=404, code="DeploymentNotFound"))
    return structs.replace(request, body=msgspec.json.encode({**body, "model": model}))


@rule("AZR-05", "M")
def filtered(request: Request, emulator: Emulator) -> None:
    if FILTERED.encode() in request.body:
        text = (
            "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please"
            " modify your prompt and retry."
        )
        found = Refusal("AZR-05", text, code="content_filter", param="prompt")
        raise _refused(request, emulator, found)


@rule("AZR-05", "M")
def with_filter_results(response: Response) -> Response:
    """A stream of chat completions begins with a chunk that has no choices."""
    if isinstance(response.body, bytes) or response.status != 200:
        return response
    first = {
        "id": "",
        "object": "",
        "created": 0,
        "model": "",
        "choices": [],
        "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": FILTERS}],
    }

    def portions(rest: Iterator[bytes]) -> Iterator[bytes]:
        begun = False
        for portion in rest:
            if not begun and b"chat.completion.chunk" in portion:
                yield sse(first)
            begun = True
            yield portion

    return structs.replace(response, body=portions(iter(response.body)))


def _refused(request: Request, emulator: Emulator, refusal: Refusal) -> RefusedError:
    return RefusedError(refusal, emulator.context(request, provider="openai"))


def _v1(routes: list[Route]) -> list[Route]:
    return [
        (method, f"/openai{pattern}", _asked(handler))
        for method, pattern, handler in routes
        if pattern.startswith("/v1/")
    ]


def _deployments() -> list[Route]:
    kinds: dict[str, Any] = {"chat/completions": chat.chat_completions, "embeddings": chat.embed}
    return [
        ("POST", f"/openai/deployments/{{deployment}}/{path}", _asked(handler))
        for path, handler in kinds.items()
    ]


ROUTES: list[Route] = [*_v1(chat.ROUTES), *_v1(responses.ROUTES), *_deployments()]
