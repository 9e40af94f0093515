// What the page knows: the host and its batches, or one batch with all its jobs, kept up
// to date by one stream of events. Only one is open at a time, because a browser gives a
// server six connections over all its tabs.
import { distrust, get, open, Refused, unknownToken } from './api';
import { follow } from './events';
import { changed, setNow } from './live';
import type { BatchRow, GPUs, JobRow, Jobs, Session, Summary } from '../common/types';

export const app = {
  session: null as Session | null,
  locked: false, // the server knows no such token
  connected: null as boolean | null, // null until the first answer
  why: '', // it is not connected
  gpus: null as GPUs | null,
  batches: null as BatchRow[] | null,
  batch: null as BatchStore | null,
};

export const may = (what: 'control' | 'run') =>
  app.session?.control === 'run' || what === 'control' && app.session?.control === 'control';

export function lock() { app.locked = true; changed(); }

function connection(connected: boolean, why: string) {
  if (!connected) distrust();
  app.connected = connected;
  app.why = why;
  changed();
}

let stop = () => {};
let watching = 'nothing';
let last: BatchStore | null = null;

// Of many tabs few are seen, and each would keep one of the browser's connections. One
// that has not been seen for a while lets go of its own, and asks now and then, for its
// title; once it is seen again, it goes on where it was.
let rest = 0, peek = 0;
document.addEventListener('visibilitychange', () => {
  clearTimeout(rest);
  clearInterval(peek);
  if (document.visibilityState === 'visible') {
    if (watching === 'resting') start();
    return;
  }
  rest = window.setTimeout(() => {
    if (watching === 'nothing' || app.locked) return;
    stop();
    watching = 'resting';
    peek = window.setInterval(() => void app.batch?.peek(), 30_000);
  }, 30_000);
});

function start() {
  watching = app.batch ? 'batch ' + app.batch.id : '';
  stop = app.batch ? app.batch.follow() : follow({ ...common, open: (signal) => open('/events', signal), event: hostEvent });
}

/** Follows the host ("") or a batch, instead of what was followed before. */
export function watch(id: string | null) {
  if (watching === (id === null ? '' : 'batch ' + id)) return;
  stop();
  app.connected = null;
  if (id !== null && last?.id !== id) last = new BatchStore(id); // back from another page, it is still known
  app.batch = id === null ? null : last;
  start();
}

export function unwatch() { stop(); watching = 'nothing'; }

const common = {
  state: connection,
  fatal: (err: unknown) => {
    if (unknownToken(err)) lock();
    return unknownToken(err) || err instanceof Refused && [403, 404].includes(err.status);
  },
};

function hostEvent(e: { type: string; data: string }) {
  if (e.type === 'host') setNow((app.gpus = JSON.parse(e.data) as GPUs).now);
  if (e.type === 'batches') app.batches = (JSON.parse(e.data) as { batches: BatchRow[] }).batches;
  changed();
}

const page = 2500;

/** A batch with its jobs. */
export class BatchStore {
  summary: Summary | null = null;
  jobs: JobRow[] = []; // at their index
  byID = new Map<string, JobRow>();
  private byName = new Map<string, JobRow>(); // the first of a name
  loaded = false;
  revision = 0; // grows with every change of jobs
  lists = 0; // grows when other jobs are in the list
  missing: Refused | null = null; // there is no such batch
  private version = '';

  constructor(readonly id: string) {}

  /** A job by its name, which survives an edit, or its id. */
  find(key: string) { return this.byName.get(key) ?? this.byID.get(key); }
  /** What links call a job. */
  keyOf(r: JobRow) { return this.byName.get(r.name)?.id === r.id ? r.name : r.id; }

  path(rest = '') { return `/batches/${encodeURIComponent(this.id)}${rest}`; }

  follow(): () => void {
    return follow({
      ...common,
      open: async (signal, alive) => {
        if (!this.loaded) await this.load(signal, alive);
        return open(this.path(`/events?after=${encodeURIComponent(this.version)}`), signal);
      },
      event: (e) => this.event(e),
      fatal: (err) => {
        if (err instanceof Refused && err.status === 404) this.missing = err;
        return common.fatal(err);
      },
    });
  }

  async peek() {
    try { setNow((this.summary = await get<Summary>(this.path())).now); changed(); } catch { /* the next time */ }
  }

  private event(e: { id: string; type: string; data: string }): boolean | void {
    if (e.type === 'reset') return this.loaded = false;
    if (e.type === 'summary') setNow((this.summary = JSON.parse(e.data) as Summary).now);
    if (e.type === 'jobs') {
      for (const row of (JSON.parse(e.data) as { jobs: JobRow[] }).jobs) this.put(row);
      if (e.id) this.version = e.id;
      this.revision++;
    }
    changed();
  }

  private put(row: JobRow) {
    this.jobs[row.index] = row;
    this.byID.set(row.id, row);
    if (this.byName.get(row.name)?.id === row.id) this.byName.set(row.name, row);
  }

  // Events go on from the version of the first page: what changes while the others come
  // is in them too.
  private async load(signal: AbortSignal, alive: () => void) {
    if (!this.summary) setNow((this.summary = await get<Summary>(this.path(), signal)).now);
    changed();
    const jobs: JobRow[] = [];
    let version = '', total = 1;
    for (let offset = 0; offset < total; offset += page) {
      const doc = await get<Jobs>(this.path(`/jobs?offset=${offset}&limit=${page}`), signal);
      alive();
      version ||= doc.version;
      total = doc.total;
      for (const row of doc.jobs) jobs[row.index] = row;
    }
    this.jobs = jobs;
    this.byID = new Map(jobs.map((j) => [j.id, j]));
    this.byName = new Map([...jobs].reverse().map((j) => [j.name, j]));
    this.version = version;
    this.loaded = true;
    this.revision++;
    this.lists++;
    changed();
  }
}
