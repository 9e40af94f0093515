// The layout of a timeline, without drawing it.
import { duration } from './format';
import type { Readings, ReadingsOfGPU } from './types';

export type Item = {
  row: number;
  from: number; // Unix time in seconds, like `to`
  to: number;
  tone: string; // a class of theme.css: ok, bad, warn, run, idle
  label: string;
  group: string; // shared by the pieces of one job
  mark?: string; // a character that marks a special piece
  hatch?: boolean; // the job had to leave its GPU
};
export type Band = { row: number; from: number; to: number; color: string; label: string };
export type Lane = { y: number; height: number; lanes: number };
export type Layout = { rows: Lane[]; lane: number[]; byRow: number[][]; height: number };

export const none = 'no GPU';

/** Rows of a timeline: this host's GPUs, then GPUs of cluster nodes by node name, then jobs without GPUs. */
export class Rows {
  private seen = new Map<string, { label: string; host: string; index: number }>();
  private at = new Map<string, number>();

  /** The key of a node's row for a GPU, or for jobs without one. host is '' for this host, whose GPUs have unique ids. */
  add(host: string, gpu?: { index: number; uuid?: string }): string {
    const label = gpu ? `GPU ${gpu.index}` : none, key = (gpu && !host && gpu.uuid) || `${host} ${label}`;
    if (!this.seen.has(key)) this.seen.set(key, { label: host ? `${host} ${label}` : label, host, index: gpu ? gpu.index : 1e9 });
    return key;
  }
  /** The labels in order. Call it before where(key). */
  sort(): string[] {
    const order = [...this.seen].sort(([a, x], [b, y]) => x.host.localeCompare(y.host, 'en', { numeric: true }) || x.index - y.index || (a < b ? -1 : 1));
    order.forEach(([key], i) => this.at.set(key, i));
    return order.map(([, v]) => v.label);
  }
  where(key: string): number { return this.at.get(key)!; }
}

const most = 16; // most lanes of a row; further pieces share the last lane
const gap = 8;

// layout assigns each piece a lane of its row so that pieces do not overlap, and each row a
// height. Items must be sorted by start.
export function layout(rows: number, items: Item[]): Layout {
  const ends: number[][] = Array.from({ length: rows }, () => []);
  const byRow: number[][] = Array.from({ length: rows }, () => []);
  const lane = items.map((it, i) => {
    const free = ends[it.row].findIndex((end) => end <= it.from);
    const at = free >= 0 ? free : Math.min(ends[it.row].length, most - 1);
    ends[it.row][at] = Math.max(it.to, ends[it.row][at] ?? 0);
    byRow[it.row].push(i);
    return at;
  });
  let y = gap / 2;
  const list = ends.map((e) => {
    const lanes = Math.max(1, e.length);
    const height = Math.max(20, lanes * (lanes > 8 ? 6 : lanes > 3 ? 9 : 14));
    const row = { y, height, lanes };
    y += height + gap;
    return row;
  });
  return { rows: list, lane, byRow, height: y - gap / 2 };
}

const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

// ticks returns roughly `about` round local times in a range.
export function ticks(from: number, to: number, about: number): number[] {
  const step = steps.find((s) => (to - from) / s <= about) ?? 604800 * Math.ceil((to - from) / 604800 / about);
  const shift = (t: number) => new Date(t * 1000).getTimezoneOffset() * 60, first = shift(from);
  const list: number[] = [];
  for (let t = Math.ceil((from - first) / step) * step + first; t <= to + 3600; t += step) {
    const at = step > 3600 ? t + shift(t) - first : t; // summer time may have started or ended after `from`
    if (at <= to) list.push(at);
  }
  return list;
}

// clock formats a time for an axis whose ticks are some seconds apart.
export function clock(t: number, step: number): string {
  const d = new Date(t * 1000), two = (n: number) => String(n).padStart(2, '0');
  const day = `${d.getMonth() + 1}-${two(d.getDate())}`.padStart(5, '0');
  if (step >= 86400 || (step >= 1800 && d.getHours() === 0 && d.getMinutes() === 0)) return day;
  return `${two(d.getHours())}:${two(d.getMinutes())}${step < 60 ? `:${two(d.getSeconds())}` : ''}`;
}

// Why a GPU could not be used, by gpus[].code, with its color.
const codes: Record<string, [string, string]> = {
  claimed: ['jobs of another run', 'theirs'], others: ['processes of other users', 'theirs'], own: ['your own processes', 'theirs'],
  hidden: ['memory in use by no visible process', 'theirs'], memory: ['too little free memory', 'busy'], busy: ['too busy', 'busy'],
  watching: ['not observed for long enough', 'busy'], limit: ['a limit', 'warn'], kept: ['kept for another job or user', 'warn'],
  prohibited: ['its compute mode', 'warn'], exclusive: ['its compute mode', 'warn'], quarantined: ['quarantined: jobs died on it', 'bad'],
  silent: ['it did not answer', 'bad'], unread: ['no reading', 'bad'],
};
export const blame = (code: string, user: string | null) => {
  const [text, color] = codes[code] ?? [code.replaceAll('_', ' '), 'idle'];
  return { text: user ? `${text} (${user})` : text, color: user ? 'theirs' : color };
};

/** The background of each GPU's row: use by others, and why jobs waited for the GPU. */
export function bandsOf(r: Readings | null, row: (g: ReadingsOfGPU) => number): Band[] {
  const bands: Band[] = [], at = (t: string) => Date.parse(t) / 1000;
  for (const g of r?.gpus ?? []) {
    for (const w of g.waits) {
      const why = blame(w.code, w.user), from = at(w.from), to = at(w.to);
      bands.push({ row: row(g), from, to, color: why.color, label: `GPU ${g.index} kept jobs waiting for ${duration(to - from)}: ${why.text}` });
    }
    let last: Band | null = null;
    r!.time.forEach((t, i) => {
      const from = at(t), to = from + r!.step_seconds;
      if (!g.others[i] || g.waits.some((w) => at(w.from) <= from && at(w.to) >= to)) last = null;
      else if (last) last.to = to;
      else bands.push(last = { row: row(g), from, to, color: 'theirs', label: `other users were on GPU ${g.index}` });
    });
  }
  return bands;
}
