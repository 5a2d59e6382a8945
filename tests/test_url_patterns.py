"""No star of a pattern reaches from the host into the path, or from the path into the query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.text.url_patterns import matches_origin, matches_url


@pytest.mark.parametrize(
    ("url", "pattern", "fits"),
    [
        ("https://a.example.org/x", "https://*.example.org/*", True),
        ("https://a.example.org/x/y?z#w", "https://*.example.org/*", True),
        ("https://a.example.org", "https://*.example.org/*", True),
        ("HTTPS://A.Example.ORG./x", "https://*.example.org/*", True),
        ("https://evil.test/.example.org/", "https://*.example.org/*", False),
        ("https://evil.test?.example.org/", "https://*.example.org/*", False),
        ("https://evil.test#.example.org/", "https://*.example.org/*", False),
        ("https://evil.test:443#.example.org/", "https://*.example.org/*", False),
        ("https://a.example.org@evil.test/", "https://*.example.org/*", False),
        ("https://evil.test\\.example.org/", "https://*.example.org/*", False),
        ("https://evil.test\t.example.org/", "https://*.example.org/*", False),
        ("https://example.org.evil.test/", "https://example.org/*", False),
        ("http://example.org/", "https://example.org/*", False),
        ("http://example.org/", "*://example.org/*", True),
        ("https://example.org:8443/", "https://example.org/*", False),
        ("https://example.org:443/", "https://example.org/*", True),
        ("https://example.org:8443/", "https://example.org:*/*", True),
        ("https://[::1]:8080/a", "https://[::1]:8080/*", True),
        ("https://example.org/docs/a", "https://example.org/docs/*", True),
        ("https://example.org/docs/../admin", "https://example.org/docs/*", False),
        ("https://example.org/docs/%2e%2E/admin", "https://example.org/docs/*", False),
        ("https://example.org/docs", "https://example.org/docs/*", False),
        ("https://example.org/a/raw/x", "https://example.org/*/raw/*", True),
        ("https://example.org/a/b/raw/x", "https://example.org/*/raw/*", False),
        ("https://example.org/a?/raw/x", "https://example.org/*/raw/*", False),
        ("https://example.org/x", "https://example.org", False),
        ("https://example.org/", "https://example.org", True),
        ("https://example.org/x", "https://*", True),
        ("https://example.org:x/", "https://*/*", False),
        ("nonsense", "https://*/*", False),
    ],
)
def test_host_and_path_are_matched_apart(url: str, pattern: str, fits: bool) -> None:
    assert matches_url(url, pattern) is fits


@pytest.mark.parametrize(
    ("origin", "pattern", "fits"),
    [
        ("https://app.example.com", "https://app.example.com", True),
        ("https://app.example.com", "https://*.example.com", True),
        ("https://example.com", "https://*.example.com", False),
        ("https://evil.test/.example.com", "https://*.example.com", False),
        ("https://evil.test:1.example.com", "https://*.example.com", False),
        ("https://app.example.com:444", "https://*.example.com", False),
        ("http://localhost:3000", "http://localhost:*", True),
        ("http://localhost:x", "http://localhost:*", False),
        ("http://localhost.evil.test", "http://localhost:*", False),
        ("http://localhost", "http://localhost:*", True),
        ("null", "https://*", False),
        ("null", "*", True),
        ("https://any.test", "https://*", True),
    ],
)
def test_an_origin_is_scheme_host_and_port(origin: str, pattern: str, fits: bool) -> None:
    assert matches_origin(origin, pattern) is fits


@given(st.text(st.sampled_from("/?#@:\\.ax-%"), max_size=12), st.text(max_size=12))
def test_no_other_host_passes_for_one_of_a_domain(between: str, after: str) -> None:
    """Whatever stands between a stranger's name and the domain that a pattern names."""
    url = f"https://evil.test/{between}.example.org/{after}"
    assert not matches_url(url, "https://*.example.org/*")
    assert not matches_url(f"https://evil.test?{between}.example.org/{after}", "https://*.example.org/*")
