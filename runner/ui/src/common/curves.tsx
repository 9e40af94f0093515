// Curves of jobs by step, grouped by setting.
import { useMemo, useState } from 'preact/hooks';
import { Chart } from './chart';
import { clean, count } from './format';
import type { Document, ReportCurve } from './types';

const lines = 12; // most curves in a chart; more look the same
const strokes = ['s1', 's2', 's3', 's4', 's5', 's6', 's7', 's8'];

interface Props {
  curves: ReportCurve[];
  results: Document | null; // its rows are the settings
  params: (c: ReportCurve) => Record<string, string> | undefined;
}

export function Curves({ curves, results, params }: Props) {
  const metrics = useMemo(() => [...new Set(curves.map((c) => c.metric))].sort(), [curves]);
  const [chosen, setMetric] = useState(''), [find, setFind] = useState(''), [from, setFrom] = useState(0);
  const metric = metrics.includes(chosen) ? chosen : results?.metrics.find((m) => m.goal && metrics.includes(m.name))?.name ?? metrics[0];
  const by = results?.by ?? [], over = results?.over ?? [];
  const found = useMemo(() => {
    const groups = new Map<string, ReportCurve[]>();
    for (const c of curves) {
      if (c.metric !== metric) continue;
      const name = clean(over.length && by.length ? by.map((p) => params(c)?.[p] ?? '–').join(' · ') : c.job);
      if (name.toLowerCase().includes(find.toLowerCase())) groups.set(name, [...(groups.get(name) ?? []), c]);
    }
    return [...groups];
  }, [curves, metric, find, by.join(), over.join()]);
  const shown = found.slice(from, from + lines);
  const [x, series] = useMemo(() => joined(shown.map(([, g]) => g)), [found, from]);
  return (
    <>
      <div class="controls no-print">
        <label>Metric <select value={metric} onChange={(e) => { setMetric(e.currentTarget.value); setFrom(0); }}>{metrics.map((m) => <option value={m}>{clean(m)}</option>)}</select></label>
        <label>Only <input type="search" value={find} placeholder="part of a name" onInput={(e) => { setFind(e.currentTarget.value); setFrom(0); }} /></label>
        {found.length > lines && (
          <span>
            <button class="button" aria-label="Previous curves" disabled={from === 0} onClick={() => setFrom(Math.max(0, from - lines))}>‹</button>
            <span class="muted"> {from + 1}–{Math.min(from + lines, found.length)} of {found.length} </span>
            <button class="button" aria-label="Next curves" disabled={from + lines >= found.length} onClick={() => setFrom(from + lines)}>›</button>
          </span>
        )}
      </div>
      <Chart key={metric} label={`${clean(metric)} by step, ${count(shown.length, 'curve')}`} x={x} height={300} format={(v) => String(+v.toPrecision(5))}
        series={shown.map(([label, g], i) => ({ label, values: series[i], stroke: strokes[i % strokes.length], dash: i >= strokes.length, stops: g.filter((c) => c.pruned).map((c) => c.steps[c.steps.length - 1]) }))} />
      <p class="muted caption">{over.length ? `Each curve is the mean over ${over.join(', ')} at each step.` : 'One curve for each job.'} × marks where a job was pruned. Drag to zoom in, double-click to see all; click a name to hide or show its curve.</p>
    </>
  );
}

// joined puts groups of curves on common steps and averages each group where it has values.
function joined(groups: ReportCurve[][]): [number[], (number | null)[][]] {
  const steps = [...new Set(groups.flatMap((g) => g.flatMap((c) => c.steps)))].sort((a, b) => a - b);
  const at = new Map(steps.map((s, i) => [s, i]));
  return [steps, groups.map((g) => {
    const sum = new Float64Array(steps.length), n = new Uint32Array(steps.length);
    for (const c of g) c.steps.forEach((s, i) => { const v = c.values[i]; if (v !== null) { sum[at.get(s)!] += v; n[at.get(s)!]++; } });
    return steps.map((_, i) => (n[i] ? sum[i] / n[i] : null));
  })];
}
