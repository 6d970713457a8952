"""What can be uploaded: a path, bytes, or an open file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeAlias

FileContent: TypeAlias = str | os.PathLike[str] | bytes | IO[bytes]
"""A path (`str` or `Path`), the content itself, or an open file, which is read from its beginning."""


class Upload:
    """A file to upload. Its content can be read several times, unless it is a stream that cannot be rewound."""

    def __init__(self, content: FileContent, name: str | None) -> None:
        self._content = content
        self.name = name or _name_of(content)
        self.repeatable = isinstance(content, str | bytes | os.PathLike) or content.seekable()

    @contextmanager
    def opened(self) -> Iterator[bytes | IO[bytes]]:
        """Opens the content from its beginning."""
        if isinstance(self._content, bytes):
            yield self._content
        elif isinstance(self._content, str | os.PathLike):
            with open(self._content, "rb") as file:
                yield file
        else:
            if self.repeatable:
                self._content.seek(0)
            yield self._content


def _name_of(content: FileContent) -> str:
    if isinstance(content, str | os.PathLike):
        return Path(content).name
    name = getattr(content, "name", None)
    if not isinstance(name, str):
        raise ValueError('bytes and unnamed files need a name: name="lease.pdf"')
    return Path(name).name
