"""Claude at Google Cloud: Messages in another envelope, with the model in the path and the version in the body.

`…/publishers/anthropic/models/{model}:rawPredict`, `:streamRawPredict`, and `count-tokens:rawPredict`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from segue.emulators.anthropic import routes
from segue.emulators.anthropic.errors import ERRORS
from segue.emulators.emulator import key_of
from segue.emulators.http import BadJsonError, Handler, Request, Response, Route, json_response
from segue.emulators.model.model_facts import listed
from segue.emulators.rules import Refusal, RefusedError, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

PLACE = "/v1/projects/{project}/locations/{location}/publishers/anthropic/models"
VERSIONS = ("vertex-2023-10-16", "2026-10-21")


def predict(request: Request, emulator: Emulator) -> Response:
    return _answered(request, emulator, stream=False)


def predict_streamed(request: Request, emulator: Emulator) -> Response:
    return _answered(request, emulator, stream=True)


@rule("VTX-05")
def _answered(request: Request, emulator: Emulator, *, stream: bool) -> Response:
    body = opened(request, emulator)
    if "model" in body:
        raise refusal(request, emulator, "VTX-05", "model: Extra inputs are not permitted")
    if bool(body.get("stream")) is not stream:
        way = "streamRawPredict" if body.get("stream") else "rawPredict"
        raise refusal(request, emulator, "VTX-05", f"stream: use {way} for such a request")
    model = request.params["model"].replace("@", "-")
    return routes.messages(as_messages(request, {"model": model, **body}), emulator)


@rule("VTX-05")
def count(request: Request, emulator: Emulator) -> Response:
    """The model is in the body here."""
    body = opened(request, emulator)
    if not isinstance(body.get("model"), str):
        raise refusal(request, emulator, "VTX-05", "model: Field required")
    return routes.count_tokens(as_messages(request, body), emulator)


def opened(request: Request, emulator: Emulator) -> dict[str, Any]:
    """The body without its envelope."""
    signed_in(request, emulator)
    try:
        body = request.json()
    except BadJsonError as error:
        raise RefusedError(ERRORS.not_json(request.body, str(error)), _context(request, emulator)) from error
    if not isinstance(body, dict) or "anthropic_version" not in body:
        raise refusal(request, emulator, "VTX-05", "anthropic_version: Field required")
    if body["anthropic_version"] not in VERSIONS:
        raise refusal(request, emulator, "VTX-05", "anthropic_version: Input should be 'vertex-2023-10-16'")
    withheld(request, body, emulator)
    return {name: value for name, value in body.items() if name != "anthropic_version"}


@rule("VTX-06")
def withheld(request: Request, body: dict[str, Any], emulator: Emulator) -> None:
    """A cloud is behind: betas and fields that it does not have yet are refused, each by itself."""
    betas = [beta.strip() for beta in request.headers.get("anthropic-beta", "").split(",")]
    strange = [beta for beta in betas if beta in emulator.withheld]
    if strange:
        words = ", ".join(f"`{beta}`" for beta in strange)
        text = (
            f"Unexpected value(s) {words} for the `anthropic-beta` header. Please consult our documentation at"
            " docs.claude.com or try again without the header."
        )
        raise refusal(request, emulator, "VTX-06", text)
    for name in body:
        if name in emulator.withheld:
            raise refusal(request, emulator, "VTX-06", f"{name}: Extra inputs are not permitted")


@rule("VTX-08")
def signed_in(request: Request, emulator: Emulator) -> None:
    has_token = request.headers.get("authorization", "").lower().startswith("bearer ")
    if not has_token or (emulator.keys is not None and key_of(request) not in emulator.keys):
        text = "Request had invalid authentication credentials. Expected OAuth 2 access token."
        found = Refusal("VTX-08", text, status=401, type="authentication_error")
        raise RefusedError(found, _context(request, emulator))


def refusal(request: Request, emulator: Emulator, rule_id: str, text: str) -> RefusedError:
    return RefusedError(Refusal(rule_id, text), _context(request, emulator))


def _context(request: Request, emulator: Emulator) -> Any:
    return emulator.context(request, provider="anthropic", model=request.params.get("model", ""))


def as_messages(request: Request, body: dict[str, Any]) -> Request:
    """The same as Anthropic's own API gets it."""
    headers = {**request.headers, "anthropic-version": "2023-06-01"}
    return structs.replace(request, headers=headers, body=msgspec.json.encode(body), params={})


def list_models(request: Request, emulator: Emulator) -> Response:
    signed_in(request, emulator)
    models = [{"name": f"publishers/anthropic/models/{name}"} for name in listed("anthropic")]
    return json_response({"publisherModels": models})


HANDLERS: dict[str, Handler] = {"rawPredict": predict, "streamRawPredict": predict_streamed}
ROUTES: list[Route] = [
    ("POST", f"{PLACE}/count-tokens:rawPredict", count),
    *(("POST", f"{PLACE}/{{model}}:{method}", handler) for method, handler in HANDLERS.items()),
    ("GET", "/v1beta1/publishers/anthropic/models", list_models),
]
