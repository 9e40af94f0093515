// What the sections of the report show, worked out of its data.
import { bytes, duration, ranges } from '../common/format';
import { bandsOf, none, Rows, type Band, type Item } from '../common/lanes';
import { handedOver, look, stateWords } from '../common/states';
import type { Attempt, ReportJob as Job, Report } from '../common/types';

export const seconds = (at: string) => Date.parse(at) / 1000;
export const lastOf = (j: Job): Attempt | undefined => j.attempts[j.attempts.length - 1];
export const hours = (s: number) => (s / 3600).toLocaleString('en-US', s < 36000 ? { minimumFractionDigits: 2, maximumFractionDigits: 2 } : { maximumFractionDigits: 0 });

/** When a run ended, or was last seen; of the live one now. */
export const endOf = (r: Report, run: Report['runs'][0]) => (r.run?.alive && run === r.runs[r.runs.length - 1] ? r.now : run.ended ?? run.last_seen);

/** Local time, the same everywhere in the report: "2026-03-01 06:12:40". */
export function stamp(at: string | null | undefined): string {
  if (!at) return '';
  const d = new Date(at), two = (n: number) => String(n).padStart(2, '0');
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** The later time, without its date if that is the same. */
export const until = (from: string, to: string) => (stamp(from).slice(0, 10) === stamp(to).slice(0, 10) ? stamp(to).slice(11) : stamp(to));

export type Chart = { rows: string[]; items: (Item & { job: number; attempt: number })[]; bands: Band[]; from: number; to: number };

/** The node of a cluster that ran an attempt, '' for this host. */
const nodeOf = (a: Attempt) => (a.submitted && a.host) || '';

/** For how long an attempt was in the queue of a cluster; null if it was in none. */
export function queued(a: Attempt, now: string): number | null {
  return a.submitted ? Math.max(0, seconds(a.started ?? a.ended ?? now) - seconds(a.submitted)) : null;
}

/** The jobs over the GPUs: a row for each, by node on a cluster, one for jobs without, and the cluster's queue apart. */
export function timelineOf(r: Report): Chart {
  const rows = new Rows(), now = seconds(r.now), items: Chart['items'] = [];
  for (const g of r.readings?.gpus ?? []) rows.add('', g);
  const keys = new Map<Attempt, string[]>();
  for (const j of r.jobs) for (const a of j.attempts) {
    if (a.started) keys.set(a, a.gpus.length ? a.gpus.map((g) => rows.add(nodeOf(a), g)) : [rows.add(nodeOf(a))]);
  }
  const labels = rows.sort();
  const queue = r.jobs.some((j) => j.attempts.some((a) => queued(a, r.now))) ? labels.push('queue') - 1 : -1;
  r.jobs.forEach((j, job) => j.attempts.forEach((a, attempt) => {
    const piece = { label: j.name, group: `${job}`, mark: a.n > 1 ? '↻' : undefined, job, attempt }, wait = queued(a, r.now);
    if (wait) items.push({ ...piece, row: queue, from: seconds(a.submitted!), to: seconds(a.submitted!) + wait, tone: 'idle' });
    if (!a.started) return;
    const from = seconds(a.started), to = Math.max(from, a.ended ? seconds(a.ended) : now);
    for (const key of keys.get(a)!) items.push({ ...piece, row: rows.where(key), from, to, tone: look(a.state).tone, hatch: handedOver(a.cause?.code) });
  }));
  items.sort((a, b) => a.from - b.from);
  const bands = bandsOf(r.readings, (g) => rows.where(rows.add('', g)));
  const ends = [...items, ...bands];
  let from = Infinity, to = -Infinity;
  for (const e of ends) { from = Math.min(from, e.from); to = Math.max(to, e.to); }
  return { rows: labels, items, bands, from: ends.length ? from : now - 60, to: ends.length ? to : now };
}

export const gpuWords = (a: Attempt) => (nodeOf(a) && `${nodeOf(a)}, `) + (a.gpus.length ? `GPU ${ranges(a.gpus.map((g) => g.index))}` : none);

/** How an attempt was in the queue of a cluster. */
export function queueWords(a: Attempt): string {
  const id = a.job_id ? ` as ${a.job_id}` : '';
  return a.started || a.ended ? `queued${id} for ${duration(queued(a, ''))}` : `queued${id} since ${stamp(a.submitted)}`;
}

/** What the timeline says of an attempt. */
export function attemptWords(j: Job, a: Attempt): string[] {
  const lines = [j.name, `attempt ${a.n}: ${stateWords(a.state)}${a.cause ? `, ${a.cause.text}` : ''}`];
  if (a.started) lines.push(`${stamp(a.started)}${a.ended ? ` – ${until(a.started, a.ended)}` : ', still running'} (${duration(a.seconds)})`);
  if (a.submitted) lines.push(queueWords(a));
  const peak = Math.max(0, ...a.gpus.map((g) => g.peak_bytes ?? 0));
  lines.push(gpuWords(a) + (peak ? `, peak ${bytes(peak)}` : ''));
  if (handedOver(a.cause?.code)) lines.push(`left its GPU: ${a.cause!.code.replaceAll('_', ' ')}`);
  return lines;
}

/** Columns of a chart over time: each value lasts for a step, and where nothing was read is a gap. */
export function steps(time: number[], step: number, columns: (number | null)[][]): [number[], (number | null)[][]] {
  const x: number[] = [], out = columns.map(() => [] as (number | null)[]);
  time.forEach((t, i) => {
    if (i > 0 && t - time[i - 1] > step * 1.5) { x.push(t - 0.002); out.forEach((c) => c.push(null)); }
    x.push(t, t + step - 0.001);
    out.forEach((c, k) => c.push(columns[k][i], columns[k][i]));
  });
  return [x, out];
}
