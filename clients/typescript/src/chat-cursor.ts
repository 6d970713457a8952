import type { Chat, ChatPage } from "./types.js";

/** Reads the list of conversations page by page while conversations are deleted, pinned and continued. Each page begins with
 * the last conversation of the page before it, which shows what has moved in between. */
export class ChatCursor {
  readonly #pageSize: number;
  readonly #seen = new Set<string>();
  /** The conversation that the next page should begin with. */
  #last: string | undefined;
  #total = 0;
  /** A conversation that was not read yet may have moved to a page that was. */
  #movedBack = false;
  /** The first pages are read again. */
  #checks = false;
  readonly limit: number;
  offset = 0;
  isOver = false;

  constructor(pageSize: number) {
    this.#pageSize = Math.max(pageSize, 1);
    this.limit = this.#pageSize + 1;
  }

  /** Takes the page at `offset` of `limit` conversations; returns those that were not on another one. */
  accept({ chats, totalCount }: ChatPage): Chat[] {
    const first = chats[0]?.chatId;
    const fallen = this.#total - totalCount;
    this.#total = totalCount;
    if (this.offset > 0 && (first === undefined || !this.#seen.has(first))) {
      // Fewer conversations come before it than were read, so some were passed over.
      this.offset = Math.max(this.offset - (fallen > 0 ? fallen : this.#pageSize), 0);
      return [];
    }
    this.#movedBack ||= this.offset > 0 && first !== this.#last;
    const fresh = chats.filter(({ chatId }) => !this.#seen.has(chatId));
    for (const { chatId } of fresh) this.#seen.add(chatId);
    const atEnd = chats.length < 2 || this.offset + chats.length >= totalCount;
    if (!atEnd && (fresh.length > 0 || !this.#checks)) {
      this.#last = chats.at(-1)?.chatId;
      this.offset += chats.length - 1;
    } else if (this.#movedBack && !this.#checks) {
      this.#checks = true;
      this.offset = 0;
    } else {
      this.isOver = true;
    }
    return fresh;
  }
}
