"""Reads the list of conversations page by page, without I/O."""

from __future__ import annotations

from ._types import Chat, ChatPage


class ChatCursor:
    """Where a reader of the list stands while conversations are deleted, pinned and continued. Each page begins with the last
    conversation of the page before it, which shows what has moved in between."""

    def __init__(self, page_size: int) -> None:
        self._page_size = max(page_size, 1)
        self._seen: set[str] = set()
        self._last: str | None = None
        """The conversation that the next page should begin with."""
        self._total = 0
        self._moved_back = False
        """Whether a conversation that was not read yet may have moved to a page that was."""
        self._checks = False
        """Whether the first pages are read again."""
        self.limit = self._page_size + 1
        self.offset = 0
        self.is_over = False

    def accept(self, page: ChatPage) -> list[Chat]:
        """Takes the page at `offset` of `limit` conversations; returns those that were not on another one."""
        chats = page.chats
        first = chats[0].chat_id if chats else None
        fallen, self._total = self._total - page.total_count, page.total_count
        if self.offset > 0 and first not in self._seen:
            # Fewer conversations come before it than were read, so some were passed over.
            self.offset = max(self.offset - (fallen if fallen > 0 else self._page_size), 0)
            return []
        self._moved_back |= self.offset > 0 and first != self._last
        new = [chat for chat in chats if chat.chat_id not in self._seen]
        self._seen.update(chat.chat_id for chat in new)
        at_end = len(chats) < 2 or self.offset + len(chats) >= page.total_count
        if not at_end and (new or not self._checks):
            self._last = chats[-1].chat_id
            self.offset += len(chats) - 1
        elif self._moved_back and not self._checks:
            self._checks = True
            self.offset = 0
        else:
            self.is_over = True
        return new
