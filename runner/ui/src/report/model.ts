// What the sections of the report show, worked out of its data.
import { bytes, duration, ranges } from '../common/format';
import type { Band, Item } from '../common/lanes';
import { handedOver, look, stateWords } from '../common/states';
import type { Attempt, Job, Report } from './types';

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

// Why a GPU could not be used, by gpus[].code, and the color that stands for it.
const codes: Record<string, [string, string]> = {
  claimed: ['jobs of another run', 'theirs'], others: ['processes of others', 'theirs'], own: ['processes of your own', 'theirs'],
  hidden: ['memory in use by no visible process', 'theirs'], memory: ['too little free memory', 'busy'], busy: ['too busy', 'busy'],
  watching: ['not watched for long enough', 'busy'], limit: ['a limit', 'warn'], kept: ['kept for somebody else', 'warn'],
  prohibited: ['its compute mode', 'warn'], exclusive: ['its compute mode', 'warn'], quarantined: ['quarantined: jobs died on it', 'bad'],
  silent: ['it did not answer', 'bad'], unread: ['it was not read', 'bad'],
};
export const blame = (code: string, user: string | null) => {
  const [text, color] = codes[code] ?? [code.replaceAll('_', ' '), 'idle'];
  return { text: user ? `${text} (${user})` : text, color: user ? 'theirs' : color };
};

const none = 'no GPU';

export type Chart = { rows: string[]; items: (Item & { job: number; attempt: number })[]; bands: Band[]; from: number; to: number };

/** The jobs over the GPUs: a row for each, and one for jobs without. */
export function timelineOf(r: Report): Chart {
  const rows = new Map<string, { label: string; index: number }>();
  for (const g of r.readings?.gpus ?? []) rows.set(g.uuid, { label: `GPU ${g.index}`, index: g.index });
  for (const j of r.jobs) for (const a of j.attempts) {
    for (const g of a.gpus) if (!rows.has(g.uuid)) rows.set(g.uuid, { label: `GPU ${g.index}`, index: g.index });
    if (!a.gpus.length && a.started) rows.set(none, { label: none, index: 1e9 });
  }
  const order = [...rows.entries()].sort((a, b) => a[1].index - b[1].index || (a[0] < b[0] ? -1 : 1));
  const at = new Map(order.map(([uuid], i) => [uuid, i]));
  const now = seconds(r.now), items: Chart['items'] = [];
  r.jobs.forEach((j, job) => j.attempts.forEach((a, attempt) => {
    if (!a.started) return;
    const from = seconds(a.started), to = Math.max(from, a.ended ? seconds(a.ended) : now);
    for (const uuid of a.gpus.length ? a.gpus.map((g) => g.uuid) : [none]) {
      items.push({ row: at.get(uuid)!, from, to, tone: look(a.state).tone, label: j.name, group: `${job}`, mark: a.n > 1 ? '↻' : undefined, hatch: handedOver(a.cause?.code), job, attempt });
    }
  }));
  items.sort((a, b) => a.from - b.from);
  const bands: Band[] = [];
  for (const g of r.readings?.gpus ?? []) for (const w of g.waits) {
    const why = blame(w.code, w.user), from = seconds(w.from), to = seconds(w.to);
    bands.push({ row: at.get(g.uuid)!, from, to, color: why.color, label: `GPU ${g.index} was waited for ${duration(to - from)}: ${why.text}` });
  }
  const ends = [...items, ...bands];
  let from = Infinity, to = -Infinity;
  for (const e of ends) { from = Math.min(from, e.from); to = Math.max(to, e.to); }
  return { rows: order.map(([, v]) => v.label), items, bands, from: ends.length ? from : now - 60, to: ends.length ? to : now };
}

export const gpuWords = (a: Attempt) => (a.gpus.length ? `GPU ${ranges(a.gpus.map((g) => g.index))}` : none);

/** What the timeline says of an attempt. */
export function attemptWords(j: Job, a: Attempt): string[] {
  const lines = [j.name, `attempt ${a.n}: ${stateWords(a.state)}${a.cause ? `, ${a.cause.text}` : ''}`];
  if (a.started) lines.push(`${stamp(a.started)}${a.ended ? ` – ${until(a.started, a.ended)}` : ', still running'} (${duration(a.seconds)})`);
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
