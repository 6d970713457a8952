"""Writes downloads to local files."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO


@contextmanager
def replacing(target: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Opens a file for writing that takes the place of `target` when the context ends well; otherwise nothing of it stays.
    What is no regular file, such as a pipe or `/dev/stdout`, is written to directly."""
    path = os.path.realpath(target)
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            yield file
        return
    partial = os.path.join(os.path.dirname(path), f".causerie-{secrets.token_hex(8)}.part")
    try:
        with open(partial, "xb") as file:
            yield file
        if os.path.exists(path):
            shutil.copymode(path, partial)
        os.replace(partial, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(partial)
        raise
