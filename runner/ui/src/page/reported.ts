// What running jobs report now: curves or the last line of the log, and the utilization of their GPUs.
import { useEffect, useState } from 'preact/hooks';
import { get, readLog } from './api';
import { app, type BatchStore } from './store';
import type { Curve, Curves, GPUs, JobRow } from '../common/types';

export interface Reported { curves: Curve[]; line: string; over: boolean }

const most = 100; // most jobs to ask about
const known = new Map<string, Reported>(); // by uni_id

/** Reports of some jobs, at most five seconds old. Asks about an ended job once. */
export function useReported(batch: BatchStore, rows: JobRow[]): Map<string, Reported> {
  const [, redraw] = useState(0), list = rows.filter((r) => r.uni_id).slice(0, most);
  const which = list.map((r) => r.uni_id + r.state).join();
  useEffect(() => {
    const stop = new AbortController();
    const ask = async () => {
      if (document.visibilityState !== 'visible') return;
      if (list.some((r) => r.state === 'running' && r.gpus.length)) void get<GPUs>('/host', stop.signal).then((d) => { app.gpus = d; }, () => {});
      let changed = false;
      for (const r of list) {
        const id = r.uni_id!, over = r.state !== 'running';
        if (stop.signal.aborted || over && known.get(id)?.over) continue;
        try {
          const { curves } = await get<Curves>(batch.path(`/attempts/${encodeURIComponent(id)}/curves`), stop.signal);
          const text = curves.length || over ? '' : new TextDecoder().decode((await readLog(batch.id, id, -2048, stop.signal)).data).trimEnd();
          known.set(id, { curves, line: text.slice(Math.max(text.lastIndexOf('\n'), text.lastIndexOf('\r')) + 1), over });
          changed = true;
        } catch { /* the next time */ }
      }
      if (changed) redraw((n) => n + 1);
    };
    void ask();
    const timer = setInterval(ask, 5000);
    return () => { stop.abort(); clearInterval(timer); };
  }, [batch, which]);
  return known;
}

/** Mean utilization of a running job's GPUs; null if unknown. */
export function busy(r: JobRow): number | null {
  const all = (app.gpus?.gpus ?? []).filter((g) => g.utilization_percent != null && g.claims.some((c) => c.job === r.name && c.user === app.session?.user));
  return all.length ? Math.round(all.reduce((n, g) => n + g.utilization_percent!, 0) / all.length) : null;
}
