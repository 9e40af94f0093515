// Server-sent events through fetch, because EventSource cannot send an Authorization header.
// A stream that ends, stalls or never starts is reopened after the last event received, so no
// event is lost when a run ends, the server restarts or a laptop sleeps.

export interface Event { id: string; type: string; data: string }

/** Splits a stream of text into events by the rules of the HTML standard. */
export class Parser {
  private rest = '';
  private id = '';
  private type = '';
  private data: string[] = [];

  *push(text: string): Generator<Event> {
    this.rest += text;
    for (;;) {
      const m = /\r\n|\n|\r(?!$)/.exec(this.rest); // a final \r may be the first half of \r\n
      if (!m) return;
      const line = this.rest.slice(0, m.index);
      this.rest = this.rest.slice(m.index + m[0].length);
      if (line === '') {
        if (this.data.length) yield { id: this.id, type: this.type || 'message', data: this.data.join('\n') };
        this.type = '';
        this.data = [];
        continue;
      }
      const colon = line.indexOf(':');
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'id') this.id = value;
      else if (field === 'event') this.type = value;
      else if (field === 'data') this.data.push(value);
    }
  }
}

export interface Stream {
  /** Opens the stream after the last event received. Calls `alive` for each step of a long start. */
  open(signal: AbortSignal, alive: () => void): Promise<Response>;
  /** Called for each event. Returning false reopens the stream. */
  event(e: Event): boolean | void;
  /** Called when the stream opens, and when it breaks, with the reason. */
  state(connected: boolean, reason: string): void;
  /** Returns whether a retry cannot fix the error. */
  fatal(err: unknown): boolean;
}

// The server sends at least a comment every 15 s.
const silence = 40_000;
const longest = 15_000;

/** Keeps a stream open until the returned function is called. */
export function follow(s: Stream): () => void {
  const over = new AbortController();
  void run(s, over.signal);
  return () => over.abort();
}

async function run(s: Stream, over: AbortSignal) {
  const wait = { ms: 0 };
  while (!over.aborted) {
    let reason: string | null = 'the connection was lost';
    try {
      if (await once(s, over, wait)) continue;
    } catch (err) {
      if (over.aborted) return;
      if ((err as Error).name !== 'AbortError' && !(err instanceof TypeError)) reason = (err as Error).message;
      if (s.fatal(err)) return s.state(false, reason);
    }
    if (over.aborted) return;
    s.state(false, reason);
    await pause(wait.ms, over);
    wait.ms = Math.min(wait.ms ? wait.ms * 2 : 500, longest);
  }
}

// once reads one stream to its end. It returns true if the stream must be reopened immediately.
async function once(s: Stream, over: AbortSignal, wait: { ms: number }): Promise<boolean> {
  const cut = new AbortController();
  let heard = Date.now();
  const alive = () => { heard = Date.now(); };
  // Compares clock times, so that a stalled stream is noticed as soon as a laptop wakes up.
  const look = () => { if (Date.now() - heard > silence) cut.abort(); };
  const watchdog = setInterval(look, 2000);
  const end = () => cut.abort();
  over.addEventListener('abort', end);
  try {
    const res = await s.open(cut.signal, alive);
    alive();
    s.state(true, '');
    const reader = res.body!.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new Parser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return false;
      wait.ms = 0;
      alive();
      for (const e of parser.push(value)) {
        if (over.aborted) return false;
        if (s.event(e) === false) return true;
      }
    }
  } finally {
    clearInterval(watchdog);
    over.removeEventListener('abort', end);
    cut.abort();
  }
}

// pause waits, or returns early when the network or the user is back.
export function pause(ms: number, over: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      removeEventListener('online', done);
      document.removeEventListener('visibilitychange', seen);
      over.removeEventListener('abort', done);
      resolve();
    };
    const seen = () => document.visibilityState === 'visible' && done();
    const timer = setTimeout(done, ms);
    addEventListener('online', done);
    document.addEventListener('visibilitychange', seen);
    over.addEventListener('abort', done);
  });
}
