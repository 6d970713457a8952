"""The tests run against a service: `CAUSERIE_URL` and `CAUSERIE_API_KEY` say which. They change the account."""

from collections.abc import Iterator

import pytest

from causerie import Causerie


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def client() -> Iterator[Causerie]:
    with Causerie() as client:
        yield client
