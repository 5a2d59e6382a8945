"""Our signatures are botocore's."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from segue.dialects.sigv4 import SigningKeys, is_signed_with, read_authorization, sign, split_url

botocore_auth = pytest.importorskip("botocore.auth")
AWSRequest = pytest.importorskip("botocore.awsrequest").AWSRequest
BotoCredentials = pytest.importorskip("botocore.credentials").Credentials

NOW = dt.datetime(2026, 11, 18, 1, 2, 3)
MOMENT = "20261118T010203Z"
CREDENTIALS = SigningKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")

visible = st.characters(codec="ascii", min_codepoint=33, max_codepoint=126)
in_urls = st.characters(codec="ascii", min_codepoint=33, max_codepoint=126, exclude_characters='#?/\\[]@"<>')
steps = st.text(in_urls, max_size=12) | st.sampled_from(
    (".", "..", "", "model", "us.anthropic.claude-sonnet-4-5-20250929-v1%3A0", "a:b", "%2F", "~", "*", "é")
)
paths = st.lists(steps, max_size=6).map(lambda found: "/" + "/".join(found)) | st.just("")
queries = st.lists(
    st.tuples(st.text(in_urls, max_size=8), st.none() | st.text(in_urls, max_size=8)), max_size=4
).map(lambda pairs: "&".join(name if value is None else f"{name}={value}" for name, value in pairs))
UNSIGNED = frozenset(botocore_auth.SIGNED_HEADERS_BLACKLIST)
"""What botocore does not sign, and we never do."""
names = st.from_regex(r"[a-z][a-z0-9-]{0,12}", fullmatch=True).filter(
    lambda name: name not in ("host", "date", "authorization", *UNSIGNED) and not name.startswith("x-amz")
)
values = st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126), max_size=24)
headers = st.dictionaries(names, values, max_size=5)
hosts = st.sampled_from(
    (
        "https://bedrock-runtime.us-east-1.amazonaws.com",
        "http://127.0.0.1:8080",
        "https://example.com:443",
        "http://example.com:80",
        "https://Example.com:8443",
    )
)


class Asked(NamedTuple):
    """A request and whom it is signed for."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes
    token: str
    region: str
    service: str


requests = st.builds(
    Asked,
    method=st.sampled_from(("POST", "GET", "put")),
    url=st.builds(
        lambda host, path, query: f"{host}{path}{f'?{query}' if query else ''}", hosts, paths, queries
    ),
    headers=headers,
    body=st.binary(max_size=200),
    token=st.just("") | st.text(visible, min_size=1, max_size=30),
    region=st.sampled_from(("us-east-1", "eu-central-1")),
    service=st.sampled_from(("bedrock", "bedrock-mantle", "aws-external-anthropic")),
)


def botocore_headers(asked: Asked) -> dict[str, str]:
    request = AWSRequest(method=asked.method, url=asked.url, headers=dict(asked.headers), data=asked.body)
    credentials = BotoCredentials(CREDENTIALS.access_key, CREDENTIALS.secret, asked.token or None)
    with patch("botocore.auth.get_current_datetime", return_value=NOW):
        botocore_auth.SigV4Auth(credentials, asked.service, asked.region).add_auth(request)
    return {name.lower(): value for name, value in request.headers.items()}


@given(asked=requests)
@example(Asked("POST", "https://h/model/a%3A0/converse", {}, b"{}", "", "us-east-1", "bedrock"))
def test_a_signature_is_the_one_of_botocore(asked: Asked) -> None:
    method, url, given_headers, body, token, region, service = asked
    credentials = SigningKeys(CREDENTIALS.access_key, CREDENTIALS.secret, token)
    ours = sign(method, url, given_headers, body, credentials, region=region, service=service, moment=MOMENT)
    assert {**given_headers, **ours} == botocore_headers(asked)
    signed = read_authorization(ours["authorization"])
    assert signed is not None
    assert (signed.access_key, signed.region, signed.service) == (CREDENTIALS.access_key, region, service)
    arrived = {"host": split_url(url)[0], **given_headers, **ours}
    target = split_url(url)[1]
    assert is_signed_with(CREDENTIALS.secret, signed, method, target, arrived, body)
    assert not is_signed_with(CREDENTIALS.secret + "x", signed, method, target, arrived, body)
    assert not is_signed_with(CREDENTIALS.secret, signed, method, target, arrived, body + b" ")
    assert not is_signed_with(CREDENTIALS.secret, signed, method, target + "/x", arrived, body)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer key",
        "AWS4-HMAC-SHA256 Credential=a, SignedHeaders=host, Signature=" + "0" * 64,
        "AWS4-HMAC-SHA256 Credential=a/b/c/d/e, SignedHeaders=host, Signature=" + "0" * 64,
        "AWS4-HMAC-SHA256 Credential=a/20261118/r/s/aws4_request, SignedHeaders=host, Signature=zz",
    ],
)
def test_what_is_no_signature_is_not_read_as_one(value: str) -> None:
    assert read_authorization(value) is None


def test_a_signature_that_leaves_out_the_host_or_the_date_is_none() -> None:
    url = "https://h/model/a/converse"
    ours = sign("POST", url, {}, b"", CREDENTIALS, region="r", service="bedrock", moment=MOMENT)
    signed = read_authorization(ours["authorization"].replace("host;", ""))
    assert signed is not None
    assert not is_signed_with(CREDENTIALS.secret, signed, "POST", "/model/a/converse", ours, b"")


def test_credentials_do_not_show_themselves() -> None:
    assert CREDENTIALS.secret not in repr(CREDENTIALS)
