// Derives from the report's data what its sections show.
import type { Attempt, ReportJob as Job, Report } from '../common/types';

export const lastOf = (j: Job): Attempt | undefined => j.attempts[j.attempts.length - 1];
export const hours = (s: number) => (s / 3600).toLocaleString('en-US', s < 36000 ? { minimumFractionDigits: 2, maximumFractionDigits: 2 } : { maximumFractionDigits: 0 });

/** When a run ended or was last seen. For the live run, the time of the report. */
export const endOf = (r: Report, run: Report['runs'][0]) => (r.run?.alive && run === r.runs[r.runs.length - 1] ? r.now : run.ended ?? run.last_seen);

/** Columns of a step chart over time. A value holds until the next; missing readings leave a gap. */
export function steps(time: number[], step: number, columns: (number | null)[][]): [number[], (number | null)[][]] {
  const x: number[] = [], out = columns.map(() => [] as (number | null)[]);
  time.forEach((t, i) => {
    if (i > 0 && t - time[i - 1] > step * 1.5) { x.push(t - 0.002); out.forEach((c) => c.push(null)); }
    x.push(t, t + step - 0.001);
    out.forEach((c, k) => c.push(columns[k][i], columns[k][i]));
  });
  return [x, out];
}
