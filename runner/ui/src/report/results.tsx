// The table of results, sortable, and the curves of the jobs behind its rows.
import { useMemo, useState } from 'preact/hooks';
import { CellText, digits } from '../common/cells';
import { Chart } from '../common/chart';
import { count } from '../common/format';
import type { ReportCurve as Curve, ReportJob as Job, Report, Document as Results } from '../common/types';

export function ResultsTable({ r }: { r: Results }) {
  const [sort, setSort] = useState<{ at: number; down: boolean } | null>(null);
  const by = r.by.length ? r.by : ['jobs'], columns = [...by, ...r.metrics.map((m) => m.name)];
  const shape = useMemo(() => r.metrics.map((_, k) => {
    const cells = r.rows.map((row) => row.cells[k]), times = r.metrics[k].percent ? 100 : 1;
    return { times, digits: digits(cells.map((c) => (c.sd ?? 0) * times), cells.map((c) => (c.mean ?? 0) * times)) };
  }), [r]);
  const rows = useMemo(() => {
    if (!sort) return r.rows;
    const value = (row: Results['rows'][0]): string | number => {
      if (sort.at >= by.length) return row.cells[sort.at - by.length].mean ?? NaN;
      const text = row.params[by[sort.at]] ?? '';
      return text !== '' && isFinite(+text) ? +text : text;
    };
    return [...r.rows].sort((a, b) => compare(value(a), value(b), sort.down));
  }, [r, sort]);
  return (
    <>
      <div class="scroll" style={{ maxHeight: '560px' }} tabIndex={0} role="region" aria-label="Results">
        <table class="data">
          <thead><tr>{columns.map((name, i) => {
            const m = r.metrics[i - by.length], on = sort?.at === i;
            return (
              <th class={m ? 'num' : ''} scope="col" aria-sort={on ? (sort!.down ? 'descending' : 'ascending') : 'none'}>
                <button onClick={() => setSort(on && sort!.down !== !!m ? null : { at: i, down: on ? !sort!.down : !!m })}>{name}{m?.percent && ' (%)'}</button>
                {m?.goal && <span class="muted" title={`${m.goal === 'max' ? 'more' : 'less'} is better`}> {m.goal}</span>}
              </th>
            );
          })}</tr></thead>
          <tbody>{rows.map((row) => (
            <tr>
              {by.map((name) => <td>{r.by.length ? row.params[name] : 'all'}</td>)}
              {row.cells.map((c, k) => <td class="num"><CellText cell={c} err={c.sd} {...shape[k]} /></td>)}
            </tr>
          ))}</tbody>
        </table>
      </div>
      <p class="muted note">{[r.caption, ...r.notes].join(' · ')}</p>
      {r.warnings.map((w) => <p class="state warn note">{w}</p>)}
    </>
  );
}

function compare(a: string | number, b: string | number, down: boolean): number {
  if (typeof a === 'number' && isNaN(a)) return 1; // what is missing is last, both ways
  if (typeof b === 'number' && isNaN(b)) return -1;
  const n = typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
  return down ? -n : n;
}

const lines = 12; // at once: more cannot be told apart
const strokes = ['s1', 's2', 's3', 's4', 's5', 's6', 's7', 's8'];

export function Curves({ r }: { r: Report }) {
  const metrics = useMemo(() => [...new Set(r.curves.map((c) => c.metric))].sort(), [r]);
  const [metric, setMetric] = useState(metrics[0]), [find, setFind] = useState(''), [from, setFrom] = useState(0);
  const groups = useMemo(() => groupsOf(r, metric), [r, metric]);
  const found = groups.filter((g) => g.name.toLowerCase().includes(find.toLowerCase()));
  const shown = found.slice(from, from + lines);
  const [x, series] = useMemo(() => joined(shown.map((g) => g.curves)), [groups, find, from]);
  const over = (r.results as Results | null)?.over ?? [];
  return (
    <div class="curves">
      <div class="controls no-print">
        <label>Metric <select value={metric} onChange={(e) => { setMetric(e.currentTarget.value); setFrom(0); }}>{metrics.map((m) => <option>{m}</option>)}</select></label>
        <label>Only <input type="search" value={find} placeholder="part of a name" onInput={(e) => { setFind(e.currentTarget.value); setFrom(0); }} /></label>
        {found.length > lines && (
          <span>
            <button class="button" disabled={from === 0} onClick={() => setFrom(Math.max(0, from - lines))}>‹</button>
            <span class="muted"> {from + 1}–{Math.min(from + lines, found.length)} of {found.length} </span>
            <button class="button" disabled={from + lines >= found.length} onClick={() => setFrom(from + lines)}>›</button>
          </span>
        )}
      </div>
      <Chart key={`${metric} ${shown.map((g) => g.name)}`} label={`${metric} by step, ${count(shown.length, 'curve')}`} x={x} height={300} format={(v) => String(+v.toPrecision(5))}
        series={shown.map((g, i) => ({ label: g.name, values: series[i], stroke: strokes[i % strokes.length], dash: i >= strokes.length ? [6, 3] : undefined }))} />
      <p class="muted note">{over.length ? `Each curve is the mean over ${over.join(', ')} at each step.` : 'One curve for each job.'} Drag to zoom in, double-click for all; a click on a name hides or shows it.</p>
    </div>
  );
}

// groupsOf puts the curves together that one row of the results is about.
function groupsOf(r: Report, metric: string): { name: string; curves: Curve[] }[] {
  const jobs = new Map<string, Job>();
  for (const j of r.jobs) for (const a of j.attempts) if (a.uni_id) jobs.set(a.uni_id, j);
  const { by = [], over = [] } = (r.results ?? {}) as Partial<Results>, groups = new Map<string, Curve[]>();
  for (const c of r.curves) {
    if (c.metric !== metric) continue;
    const params = jobs.get(c.uni_id)?.params ?? {};
    const name = over.length && by.length ? by.map((p) => params[p] ?? '–').join(' · ') : c.job;
    groups.set(name, [...(groups.get(name) ?? []), c]);
  }
  return [...groups].map(([name, curves]) => ({ name, curves }));
}

// joined puts groups of curves on common steps; of each, the mean where there are values.
function joined(groups: Curve[][]): [number[], (number | null)[][]] {
  const steps = [...new Set(groups.flatMap((g) => g.flatMap((c) => c.steps)))].sort((a, b) => a - b);
  const at = new Map(steps.map((s, i) => [s, i]));
  return [steps, groups.map((g) => {
    const sum = new Float64Array(steps.length), n = new Uint32Array(steps.length);
    for (const c of g) c.steps.forEach((s, i) => { const v = c.values[i]; if (v !== null) { sum[at.get(s)!] += v; n[at.get(s)!]++; } });
    return steps.map((_, i) => (n[i] ? sum[i] / n[i] : null));
  })];
}
