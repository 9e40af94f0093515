// Which jobs of a batch the list shows, and in which order.
import { five, statesOf } from '../common/five';
import { clean } from '../common/format';
import { stateWords } from '../common/states';
import type { JobRow } from '../common/types';

export type SortBy = 'file' | 'now' | 'name' | 'state' | 'started' | 'ended' | 'lasted' | `metric:${string}`;
export interface Sort { by: SortBy; down: boolean }

/** The order in a URL, such as "metric:val acc down". */
export function sortOf(text: string): Sort {
  const by = text.replace(/ down$/, '');
  return { by: by as SortBy, down: by !== text };
}

// The searchable text of a row, cached by row: rows are replaced, never modified.
const haystacks = new WeakMap<JobRow, string>();

function haystack(r: JobRow): string {
  let h = haystacks.get(r);
  if (h === undefined) {
    h = [r.name, ...Object.values(r.params ?? {}), ...r.tags, r.queue ?? '', stateWords(r.state), r.cause?.text ?? '', r.wait?.text ?? ''].join(' ').toLowerCase();
    haystacks.set(r, h);
  }
  return h;
}

/** An unknown key in a search, with the valid keys. */
export class UnknownKey extends Error {}

type Test = (r: JobRow) => boolean;

// One term of a search: a part of the row's text, state:failed, gpu:0, or a parameter with its exact value.
function wordTest(word: string, jobs: JobRow[], alive: boolean): Test {
  const [, key, is, quoted] = /^([\w.-]+)([:=])(.*)$/.exec(word) ?? [], value = quoted?.replaceAll('"', '');
  if (is === ':' && key === 'state') {
    const states = statesOf(five.find((f) => f.word === value)?.is ?? '', alive);
    return (r) => !value || [r.state, stateWords(r.state)].some((s) => s.startsWith(value)) || value === 'stalled' && r.stalled != null || !!states?.includes(r.state);
  }
  if (is === ':' && key === 'gpu') return (r) => !value || r.gpus.includes(Number(value));
  if (is === ':' && key === 'error') return (r) => r.kind === value;
  const names = is ? [...new Set(jobs.flatMap((r) => Object.keys(r.params ?? {})))].sort() : [], name = names.find((n) => n.toLowerCase() === key);
  if (is === '=' && name !== undefined) return (r) => !value || r.params?.[name]?.toLowerCase() === value;
  if (is && !jobs.some((r) => haystack(r).includes(word))) {
    throw new UnknownKey(`Unknown ${is === '=' ? 'parameter' : 'filter'} ${key}${is === '=' ? '' : ':'}. Valid: ${['state:', 'gpu:', ...names.map((n) => `${n}=`)].join(', ')}.`);
  }
  const text = word.replaceAll('"', '');
  return (r) => haystack(r).includes(text);
}

/** Jobs whose state belongs to one of the five words ("" for all) and that match every term of the search. */
export function select(jobs: JobRow[], show: string, search: string, alive: boolean): JobRow[] {
  const states = statesOf(show, alive);
  const tests = (search.toLowerCase().match(/(?:[^\s"]|"[^"]*"?)+/g) ?? []).map((w) => wordTest(w, jobs, alive));
  if (!states && !tests.length) return jobs;
  return jobs.filter((r) => (!states || states.includes(r.state)) && tests.every((t) => t(r)));
}

/** A search for the jobs with these parameters. */
export const searchOf = (params: Record<string, string>) =>
  Object.entries(params).filter(([k]) => k !== 'job' && k !== 'file').map(([k, v]) => (/\s/.test(v) ? `${k}="${v}"` : `${k}=${v}`)).join(' ');

const stateOrder = ['running', 'failed', 'waiting', 'idle', 'done'].flatMap((w) => statesOf(w, true)!);
const natural = new Intl.Collator('en', { numeric: true });
let ranked: { jobs: JobRow[]; rank: Map<string, number> } | null = null;

// Comparing names is slow, so their order is cached by list.
function ranks(jobs: JobRow[]): Map<string, number> {
  if (ranked?.jobs !== jobs) {
    const names = [...new Set(jobs.map((j) => j.name))].sort(natural.compare);
    ranked = { jobs, rank: new Map(names.map((n, i) => [n, i])) };
  }
  return ranked.rank;
}

/** Sorted rows. Rows without a value come last in both directions. */
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
    case 'now': return (r) => -['done', 'idle', 'waiting', 'failed', 'running'].findIndex((w) => statesOf(w, true)!.includes(r.state));
    case 'state': return (r) => stateOrder.indexOf(r.state);
    case 'started': return (r) => r.started;
    case 'ended': return (r) => r.ended;
    case 'lasted': return (r) => r.started ? (r.ended ? Date.parse(r.ended) : Date.now()) - Date.parse(r.started) : null;
  }
  const metric = by.slice('metric:'.length);
  return (r) => { const v = r.metrics?.[metric]; return typeof v === 'number' ? v : null; };
}

/** At most three metrics of the jobs. `step` is left out, because it only counts a curve's points. */
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

/** Why a job waits or failed. */
export const says = (r: JobRow) => clean(r.stalled ?? r.wait?.text ?? r.cause?.text ?? '').replace(/\s+/g, ' ');
