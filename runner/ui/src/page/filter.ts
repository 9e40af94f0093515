// Which jobs of a batch are listed, and in which order.
import { clean } from '../common/format';
import { stateWords } from '../common/states';
import type { Counts, JobRow, State } from './types';

export type Group = 'all' | 'running' | 'todo' | 'failed' | 'held' | 'done';

/** The filters above the list; "done" is what has ended well. */
export const groups: { group: Group; word: string; tone: string; states: State[] | null }[] = [
  { group: 'all', word: 'All', tone: '', states: null },
  { group: 'running', word: 'Running', tone: 'run', states: ['running'] },
  { group: 'todo', word: 'To do', tone: 'idle', states: ['queued', 'waiting', 'pending'] },
  { group: 'failed', word: 'Failed', tone: 'bad', states: ['failed', 'oom', 'timeout', 'stalled', 'lost'] },
  { group: 'held', word: 'Held up', tone: 'warn', states: ['blocked', 'cancelled', 'interrupted'] },
  { group: 'done', word: 'Done', tone: 'ok', states: ['succeeded', 'up_to_date', 'not_needed'] },
];

export const countOf = (counts: Counts, states: State[] | null) =>
  Object.entries(counts).reduce((sum, [s, n]) => sum + (!states || states.includes(s as State) ? n : 0), 0);

export type SortBy = 'file' | 'name' | 'state' | 'started' | 'ended' | 'lasted' | `metric:${string}`;
export interface Sort { by: SortBy; down: boolean }

// What a search looks at, made once for each row: rows are replaced, never changed.
const haystacks = new WeakMap<JobRow, string>();

function haystack(r: JobRow): string {
  let h = haystacks.get(r);
  if (h === undefined) {
    const params = Object.entries(r.params ?? {}).map(([k, v]) => `${k}=${v}`);
    const gpus = r.gpus.map((g) => `gpu:${g}`);
    h = [r.name, ...params, ...r.tags, r.queue ?? '', ...gpus, stateWords(r.state), r.cause?.text ?? '', r.wait?.text ?? ''].join(' ').toLowerCase();
    haystacks.set(r, h);
  }
  return h;
}

/** The jobs that are in the group and have every word of the search. */
export function select(jobs: JobRow[], group: Group, search: string): JobRow[] {
  const states = groups.find((g) => g.group === group)?.states;
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (!states && !words.length) return jobs;
  return jobs.filter((r) => (!states || states.includes(r.state)) && words.every((w) => haystack(r).includes(w)));
}

const stateOrder = groups.flatMap((g) => g.states ?? []);
const natural = new Intl.Collator('en', { numeric: true });
let ranked: { jobs: JobRow[]; rank: Map<string, number> } | null = null;

// Comparing names is slow, and they stay: their order is made once for a list.
function ranks(jobs: JobRow[]): Map<string, number> {
  if (ranked?.jobs !== jobs) {
    const names = [...new Set(jobs.map((j) => j.name))].sort(natural.compare);
    ranked = { jobs, rank: new Map(names.map((n, i) => [n, i])) };
  }
  return ranked.rank;
}

/** The rows in order; those without a value come last in both directions. */
export function sorted(rows: JobRow[], all: JobRow[], sort: Sort): JobRow[] {
  if (sort.by === 'file') return sort.down ? [...rows].reverse() : rows;
  const value = valueOf(sort.by, all);
  const keyed = rows.map((r) => ({ r, v: value(r) }));
  const sign = sort.down ? -1 : 1;
  keyed.sort((a, b) => a.v === b.v ? a.r.index - b.r.index : a.v == null ? 1 : b.v == null ? -1 : a.v < b.v ? -sign : sign);
  return keyed.map((k) => k.r);
}

function valueOf(by: SortBy, all: JobRow[]): (r: JobRow) => number | string | null {
  switch (by) {
    case 'name': { const rank = ranks(all); return (r) => rank.get(r.name) ?? null; }
    case 'state': return (r) => stateOrder.indexOf(r.state);
    case 'started': return (r) => r.started;
    case 'ended': return (r) => r.ended;
    case 'lasted': return (r) => r.started ? (r.ended ? Date.parse(r.ended) : Date.now()) - Date.parse(r.started) : null;
  }
  const metric = by.slice('metric:'.length);
  return (r) => { const v = r.metrics?.[metric]; return typeof v === 'number' ? v : null; };
}

/** The names of the numbers that the jobs have measured, at most three; `step` only counts a curve's points. */
export function metricsOf(jobs: JobRow[]): string[] {
  const names: string[] = [];
  let seen = 0;
  for (const j of jobs) {
    if (!j.metrics) continue;
    for (const k of Object.keys(j.metrics)) if (typeof j.metrics[k] === 'number' && k !== 'step' && !names.includes(k)) names.push(k);
    if (++seen === 30) break;
  }
  return names.slice(0, 3);
}

/** What a job's row says in words: why it waits or failed. */
export const says = (r: JobRow) => clean(r.wait?.text ?? r.cause?.text ?? '').replace(/\s+/g, ' ');
