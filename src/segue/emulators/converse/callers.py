"""Who asks: an API key as bearer, or a request signed with AWS Signature Version 4 (AWS-01, AWS-02)."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote

from msgspec import structs

from segue.emulators.emulator import key_of
from segue.emulators.rules import Complaints, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.emulators.emulator import Emulator
    from segue.emulators.http import Request

_SCHEME = "AWS4-HMAC-SHA256"
_PARTS = re.compile(r"Credential=([^,\s]+),\s*SignedHeaders=([^,\s]+),\s*Signature=([0-9a-f]{64})")
BEDROCK = "bedrock"
"""What requests to the runtime are signed for."""


@rule("AWS-01")
@rule("AWS-02")
def unknown_caller(request: Request, emulator: Emulator, service: str = BEDROCK) -> Complaints:
    authorization = request.headers.get("authorization", "")
    if authorization.startswith(_SCHEME):
        yield from _unsigned(request, emulator.secrets, authorization, service)
        return
    key = key_of(request)
    if not key:
        yield _refusal("Missing Authentication Token", "MissingAuthenticationTokenException")
    elif emulator.keys is not None and key not in emulator.keys:
        yield _refusal(
            "Authentication failed: Please make sure your API Key is valid.", "AccessDeniedException"
        )


def _unsigned(request: Request, secrets: Mapping[str, str], authorization: str, wanted: str) -> Complaints:
    found = _PARTS.search(authorization)
    if found is None:
        yield _refusal(
            "Authorization header requires 'Credential', 'SignedHeaders' and 'Signature' parameters.",
            "IncompleteSignatureException",
        )
        return
    scope = found[1].split("/")
    if len(scope) != 5 or scope[4] != "aws4_request" or scope[3] != wanted:
        yield _refusal(
            f"Credential should be scoped to correct service: '{wanted}'.", "InvalidSignatureException"
        )
        return
    access_key, day, region, service, _ = scope
    if access_key not in secrets:
        yield _refusal(
            "The security token included in the request is invalid.", "UnrecognizedClientException"
        )
        return
    names = found[2].split(";")
    if "host" not in names or any(name not in request.headers for name in names):
        yield _refusal(
            "'Host' must be a 'SignedHeader' in the AWS Authorization.", "InvalidSignatureException"
        )
        return
    moment = request.headers.get("x-amz-date", "")
    if not moment.startswith(day):
        yield _refusal("Date in Credential scope does not match x-amz-date.", "InvalidSignatureException")
        return
    to_sign = "\n".join(
        (
            _SCHEME,
            moment,
            "/".join((day, region, service, "aws4_request")),
            _digest(_canonical(request, names)),
        )
    )
    key = f"AWS4{secrets[access_key]}".encode()
    for part in (day, region, service, "aws4_request", to_sign):
        key = hmac.digest(key, part.encode(), "sha256")
    if not hmac.compare_digest(key.hex(), found[3]):
        yield _refusal(
            "The request signature we calculated does not match the signature you provided. Check your AWS Secret "
            "Access Key and signing method. Consult the service documentation for details.",
            "InvalidSignatureException",
        )


def with_key(request: Request, emulator: Emulator) -> Request:
    """The request of a known caller, for the handlers of another wire, which ask for a key."""
    if key_of(request):
        return request
    found = _PARTS.search(request.headers.get("authorization", ""))
    signer = found[1].partition("/")[0] if found is not None else ""
    key = signer if emulator.keys is None else min(emulator.keys, default="")
    return structs.replace(request, headers={**request.headers, "x-api-key": key})


def _canonical(request: Request, names: list[str]) -> str:
    path, _, query = request.target.partition("?")
    pairs = sorted(
        f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}"
        for name, value in parse_qsl(query, keep_blank_values=True)
    )
    headers = "".join(f"{name}:{' '.join(request.headers[name].split())}\n" for name in names)
    hashed = hashlib.sha256(request.body).hexdigest()
    # BDR-10: the path is encoded once more than it was sent.
    lines = (request.method, quote(path, safe="/-_.~"), "&".join(pairs), headers, ";".join(names), hashed)
    return "\n".join(lines)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _refusal(message: str, kind: str) -> Refusal:
    return Refusal(
        "AWS-01" if kind.startswith(("Missing", "Access")) else "AWS-02", message, status=403, type=kind
    )
