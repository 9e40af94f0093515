// The part of a log that the page has loaded.

/** The maximum number of bytes to keep in the page, and to read in one request. */
export const most = 4 * 1024 * 1024;
const blockLines = 200;

interface Block { id: number; text: string; sizes: number[] } // sizes are the bytes of each line in the log

/**
 * Complete lines in blocks, and the unfinished last line. Positions count the bytes of the log. The
 * text has fewer bytes where a progress bar overwrote its line, and other bytes where the log is not
 * UTF-8.
 */
export class Tail {
  from = 0;
  total = 0;
  over = false;
  ticket: string | null = null;
  blocks: Block[] = [];
  open = ''; // the text after the last line feed
  read = false;
  size = 0;
  private next = 0;
  private rest = new Uint8Array(); // the bytes of `open`, without overwritten ones
  private overwritten = 0;

  // Starts over near the end, because too much was written in the meantime.
  clear() {
    this.blocks = [];
    this.rest = new Uint8Array();
    this.open = '';
    this.overwritten = 0;
    this.size = 0;
    this.read = false;
  }

  append(at: number, data: Uint8Array, trim: boolean) {
    if (!this.read) {
      this.read = true;
      this.from = at;
      if (at > 0) { // start with a complete line
        const nl = data.indexOf(10);
        if (nl >= 0 && nl < data.length - 1) { this.from = at + nl + 1; data = data.subarray(nl + 1); }
      }
    }
    this.size += data.length;
    const all = new Uint8Array(this.rest.length + data.length);
    all.set(this.rest);
    all.set(data, this.rest.length);
    const end = all.lastIndexOf(10) + 1;
    if (end > 0) {
      const sizes = sizesOf(all.subarray(0, end));
      sizes[0] += this.overwritten;
      this.overwritten = 0;
      this.lines(decode(all.subarray(0, end)), sizes);
    }
    let last = end;
    for (let i = all.length - 2; i >= end && last === end; i--) if (all[i] === 13 && all[i + 1] !== 13) last = i + 1; // a progress bar overwrites its line
    this.overwritten += last - end;
    this.rest = all.slice(last);
    this.open = decode(this.rest);
    while (trim && this.size > most && this.blocks.length > 2) {
      const gone = sum(this.blocks[0].sizes);
      this.blocks = this.blocks.slice(1);
      this.size -= gone;
      this.from += gone;
    }
  }

  // Adds complete lines, filling up the last block.
  private lines(text: string, sizes: number[]) {
    const lines = text.split(/(?<=\n)/);
    for (let i = 0; i < lines.length;) {
      const last = this.blocks[this.blocks.length - 1], full = !last || last.sizes.length >= blockLines;
      const old = full ? { id: this.next++, text: '', sizes: [] } : last, n = blockLines - old.sizes.length;
      const block = { id: old.id, text: old.text + lines.slice(i, i + n).join(''), sizes: [...old.sizes, ...sizes.slice(i, i + n)] };
      this.blocks = [...(full ? this.blocks : this.blocks.slice(0, -1)), block];
      i += n;
    }
  }

  prepend(at: number, data: Uint8Array) {
    const end = data.indexOf(10) + 1, nl = at > 0 && end < data.length ? end : 0, whole = data.subarray(nl);
    const lines = decode(whole).split(/(?<=\n)/), sizes = sizesOf(whole);
    this.from = at + nl;
    this.size += whole.length;
    const blocks: Block[] = [];
    for (let i = 0; i < sizes.length; i += blockLines) {
      blocks.push({ id: -1 - this.next++, text: lines.slice(i, i + blockLines).join(''), sizes: sizes.slice(i, i + blockLines) });
    }
    this.blocks = [...blocks, ...this.blocks];
  }
}

const decode = (data: Uint8Array) => new TextDecoder().decode(data);
/** The total size of lines. */
export const sum = (sizes: number[]) => sizes.reduce((n, s) => n + s, 0);

// The sizes of lines with their line feeds. The last line may lack its line feed.
function sizesOf(data: Uint8Array): number[] {
  const sizes: number[] = [];
  for (let at = 0; at < data.length;) {
    const end = data.indexOf(10, at) + 1 || data.length;
    sizes.push(end - at);
    at = end;
  }
  return sizes;
}

/** The index of the line that contains a byte offset. */
export function lineAt(sizes: number[], at: number): number {
  let line = 0;
  for (; at >= sizes[line]; line++) at -= sizes[line];
  return line;
}
