"""What a client is made with."""

from __future__ import annotations

import os

import httpx

from . import _version

PREFIX = "/api/v1"
TIMEOUT = httpx.Timeout(90.0, connect=10.0)
"""Of calls, in seconds; the service holds a response for 60 at most."""
STREAM_TIMEOUT = httpx.Timeout(45.0, connect=10.0)
"""Of streams: the service sends a comment every ten seconds."""


def base_url(given: str | None) -> str:
    """Returns the address of the service: the given one, or that of `CAUSERIE_URL`."""
    url = given or os.environ.get("CAUSERIE_URL") or "http://127.0.0.1:8080"
    parsed = httpx.URL(url)
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"the base URL has the form http://HOST:PORT, not {url!r}")
    return url.rstrip("/") + PREFIX


def headers(api_key: str | None) -> dict[str, str]:
    """Returns the headers of every request."""
    key = api_key or os.environ.get("CAUSERIE_API_KEY")
    if not key:
        raise ValueError("give api_key, or set CAUSERIE_API_KEY")
    return {"X-Api-Key": key.strip(), "User-Agent": f"causerie-python/{_version.VERSION}"}
