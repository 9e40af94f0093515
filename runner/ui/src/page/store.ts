// The page's data: the host and its batches, or one batch with all its jobs. One stream of
// events keeps it current. Only one is open at a time, because a browser allows six
// connections to a server across all tabs.
import { flat } from '../common/format';
import { distrust, get, open, Refused, unknownToken } from './api';
import { follow } from './events';
import { changed, setNow } from './live';
import type { BatchRow, GPUs, JobRow, Jobs, Session, Summary } from '../common/types';

export const app = {
  session: null as Session | null,
  locked: false, // the server rejects the token
  connected: null as boolean | null, // null until the first answer
  why: '', // why it is not connected
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

// With many tabs open, each would occupy one of the browser's connections. A tab that stays
// hidden closes its connection and polls now and then, for its title. When it is visible
// again, it continues from where it was.
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

/** Follows the host ("") or a batch, and stops following the previous one. */
export function watch(id: string | null) {
  if (watching === (id === null ? '' : 'batch ' + id)) return;
  stop();
  app.connected = null;
  if (id !== null && last?.id !== id) last = new BatchStore(id); // a batch that is shown again reuses its data
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
  jobs: JobRow[] = []; // by index
  byID = new Map<string, JobRow>();
  private byName = new Map<string, JobRow>(); // the first job with each name
  loaded = false;
  revision = 0; // increases with every change of a job
  lists = 0; // increases when jobs are added or removed
  missing: Refused | null = null; // set if the batch does not exist
  private version = '';

  constructor(readonly id: string) {}

  /** Finds a job by its name, which survives an edit of the file, or by its id. */
  find(key: string) { return this.byName.get(key) ?? this.byID.get(key); }
  /** The key of a job in links. */
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
    if (row.metrics) row.metrics = flat(row.metrics);
    this.jobs[row.index] = row;
    this.byID.set(row.id, row);
    if (this.byName.get(row.name)?.id === row.id) this.byName.set(row.name, row);
  }

  // Events start at the version of the first response, so they include changes that happen
  // while the other responses load.
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
      for (const row of doc.jobs) {
        if (row.metrics) row.metrics = flat(row.metrics);
        jobs[row.index] = row;
      }
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
