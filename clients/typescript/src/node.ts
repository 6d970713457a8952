/** What only Node has: `causerie/node`. */

import * as fs from "node:fs";
import { basename } from "node:path";
import type { NamedContent } from "./resources.js";

/** Opens a file for `files.upload`. Node 20 and later read it while it is sent; Node 18 reads it into memory. */
export async function fileFromPath(path: string, name = basename(path)): Promise<NamedContent> {
  const open: ((path: string) => Promise<Blob>) | undefined = (fs as Partial<typeof fs>).openAsBlob;
  const content = open ? await open(path) : new Blob([await fs.promises.readFile(path)]);
  return { name, content };
}
