"""What a client is made with."""

from __future__ import annotations

import os
from dataclasses import dataclass

import httpx

from . import _version
from ._retries import Retries

TIMEOUT_SECONDS = 90.0
"""Of calls, besides the time for which the service was asked to hold the response."""
STREAM_TIMEOUT = httpx.Timeout(45.0, connect=10.0)
"""Of streams: the service sends a comment every ten seconds."""
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Settings:
    """Where the service is, and how it is called."""

    base: str
    headers: dict[str, str]
    timeout: float
    retries: Retries

    def timeout_of(self, held: float) -> httpx.Timeout:
        """Bounds a call whose response the service may hold for so many seconds."""
        connect = min(self.timeout, _CONNECT_SECONDS)
        return httpx.Timeout(self.timeout, connect=connect, read=self.timeout + held)

    @staticmethod
    def of(base_url: str | None, api_key: str | None, timeout: float, retries: Retries | None) -> Settings:
        """Makes them of what a caller gave, and of `CAUSERIE_URL` and `CAUSERIE_API_KEY`."""
        url = base_url or os.environ.get("CAUSERIE_URL") or "http://127.0.0.1:8080"
        parsed = httpx.URL(url)
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ValueError(f"the base URL has the form http://HOST:PORT, not {url!r}")
        key = api_key or os.environ.get("CAUSERIE_API_KEY")
        if not key:
            raise ValueError("give api_key, or set CAUSERIE_API_KEY")
        return Settings(
            base=url.rstrip("/") + "/api/v1",
            headers={"X-Api-Key": key.strip(), "User-Agent": f"causerie-python/{_version.VERSION}"},
            timeout=timeout,
            retries=retries or Retries(),
        )
