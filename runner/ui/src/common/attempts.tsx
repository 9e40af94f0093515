// The attempts of a batch: by GPU and node, in a cluster's queue, and in words.
import { bytes, clean, count, duration, ranges, seconds, stamp, until } from './format';
import { bandsOf, none, Rows, type Band, type Item } from './lanes';
import { handedOver, look, stateWords } from './states';
import { Timeline } from './timeline';
import type { Attempt, Readings } from './types';

type Named = Attempt & { job: string };
type Piece<T> = Item & { of: T; open: boolean };
export interface Lanes<T> { rows: string[]; items: Piece<T>[]; bands: Band[]; from: number; to: number }

/** The cluster node that ran an attempt, or '' for this host. */
const nodeOf = (a: Attempt) => (a.submitted && a.host) || '';

/** How long an attempt waited in a cluster's queue, or has waited so far; null if it was never queued. */
export function queued(a: Attempt, now: number): number | null {
  return a.submitted ? Math.max(0, seconds(a.started ?? a.ended, now) - seconds(a.submitted)) : null;
}

/** Attempts in rows: one for each GPU (on a cluster, of each node), one for jobs without GPUs, and one for the cluster's queue. */
export function lanesOf<T extends Named>(attempts: T[], readings: Readings | null, now: number): Lanes<T> {
  const rows = new Rows(), items: Piece<T>[] = [];
  for (const g of readings?.gpus ?? []) rows.add('', g); // also GPUs without jobs
  const keys = attempts.map((a) => (!a.started ? [] : a.gpus.length ? a.gpus.map((g) => rows.add(nodeOf(a), g)) : [rows.add(nodeOf(a))]));
  const labels = rows.sort(), queue = attempts.some((a) => queued(a, now)) ? labels.push('queue') - 1 : -1;
  attempts.forEach((a, i) => {
    const piece = { label: clean(a.job), group: a.job, mark: a.n > 1 ? '↻' : undefined, of: a, open: !a.ended }, wait = queued(a, now);
    if (wait) items.push({ ...piece, row: queue, from: seconds(a.submitted), to: seconds(a.submitted) + wait, tone: 'idle', open: !a.started && !a.ended });
    const from = seconds(a.started), to = Math.max(from, seconds(a.ended, now));
    for (const key of keys[i]) items.push({ ...piece, row: rows.where(key), from, to, tone: look(a.state).tone, hatch: handedOver(a.cause?.code) });
  });
  items.sort((a, b) => a.from - b.from);
  const bands = bandsOf(readings, (g) => rows.where(rows.add('', g)));
  let from = Infinity, to = -Infinity;
  for (const e of [...items, ...bands]) { from = Math.min(from, e.from); to = Math.max(to, e.to); }
  return { rows: labels, items, bands, from: isFinite(from) ? from : now - 60, to: isFinite(to) ? to : now };
}

/** The timeline of the attempts, with its legend. */
export function Attempts<T extends Named>({ lanes: l, now, open }: { lanes: Lanes<T>; now: number; open: (attempt: T) => void }) {
  const bands = new Set(l.bands.map((b) => b.color));
  return (
    <>
      <Timeline label={`${count(l.items.length, 'bar')} in ${count(l.rows.length, 'row')}`} {...l} tip={(i) => attemptWords((i as Piece<T>).of, now)} onOpen={(i) => open((i as Piece<T>).of)} />
      <p class="legend">
        <span><i class="ok" />succeeded</span><span><i class="bad" />failed</span><span><i class="run" />running</span><span><i class="warn hatched" />had to leave its GPU, or was stopped</span><span>↻ a retry</span>
        {bands.has('theirs') && <span><i class="theirs thin" />used by other users</span>}{bands.has('busy') && <span><i class="busy thin" />too full or busy</span>}{bands.has('warn') && <span><i class="warn thin" />limits</span>}
      </p>
    </>
  );
}

export const gpuWords = (a: Attempt) => (nodeOf(a) && `${nodeOf(a)}, `) + (a.gpus.length ? `GPU ${ranges(a.gpus.map((g) => g.index))}` : none);

/** An attempt's time in a cluster's queue, in words. */
export function queueWords(a: Attempt): string {
  const id = a.job_id ? ` as ${a.job_id}` : '';
  return a.started || a.ended ? `queued${id} for ${duration(queued(a, 0))}` : `queued${id} since ${stamp(a.submitted)}`;
}

// The tooltip of a piece.
function attemptWords(a: Named, now: number): string[] {
  const lines = [clean(a.job), `attempt ${a.n}: ${stateWords(a.state)}${a.cause ? `, ${clean(a.cause.text)}` : ''}`];
  if (a.started) lines.push(`${stamp(a.started)}${a.ended ? ` – ${until(a.started, a.ended)}` : ', still running'} (${duration(seconds(a.ended, now) - seconds(a.started))})`);
  if (a.submitted) lines.push(queueWords(a));
  const peak = Math.max(0, ...a.gpus.map((g) => g.peak_bytes ?? 0));
  lines.push(gpuWords(a) + (peak ? `, peak ${bytes(peak)}` : ''));
  if (handedOver(a.cause?.code)) lines.push(`left its GPU: ${a.cause!.code.replaceAll('_', ' ')}`);
  return lines;
}
