// Each GPU's memory and utilization over time, with the batch's share.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { Chart } from '../common/chart';
import { bytes, duration, seconds } from '../common/format';
import { steps } from './model';
import type { ReadingsOfGPU as GPUReadings, Report } from '../common/types';

export function GPUs({ r }: { r: Report }) {
  const time = useMemo(() => r.readings!.time.map((t) => seconds(t)), [r]);
  return (
    <>
      <p class="legend">
        <span><i class="ours" />this batch</span><span><i class="theirs" />other users</span><span><i class="busy" />both at the same time (utilization)</span>
        <span>each point covers {duration(r.readings!.step_seconds)}: peak memory, mean utilization</span>
      </p>
      <div class="gpus">{r.readings!.gpus.map((g) => <Lazy height={330}><GPU g={g} time={time} step={r.readings!.step_seconds} /></Lazy>)}</div>
    </>
  );
}

const GiB = 2 ** 30;

function GPU({ g, time, step }: { g: GPUReadings; time: number[]; step: number }) {
  const [x, memory, util] = useMemo(() => {
    const whose = (want: (ours: boolean, others: boolean) => boolean) =>
      g.utilization_percent.map((u, i) => (want(g.jobs[i] > 0, g.others[i]) || (g.jobs[i] === 0 && !g.others[i] && want(false, true)) ? u : null));
    const gib = (v: number | null) => (v === null ? null : v / GiB);
    const [x, cols] = steps(time, step, [
      g.memory_used_bytes.map(gib), g.memory_ours_bytes.map(gib),
      whose((ours, others) => ours && !others), whose((ours, others) => !ours && others), whose((ours, others) => ours && others),
    ]);
    return [x, cols.slice(0, 2), cols.slice(2)];
  }, [g, time]);
  const known = g.memory_used_bytes.filter((v): v is number => v !== null);
  const peak = known.length ? Math.max(...known) : null, total = g.memory_total_bytes;
  const busy = g.utilization_percent.filter((v): v is number => v !== null);
  const mean = busy.length ? busy.reduce((a, b) => a + b, 0) / busy.length : null;
  const said = `GPU ${g.index}: at most ${bytes(peak)} of ${bytes(total)} in use, ${mean === null ? 'utilization unknown' : `${mean.toFixed(0)}% busy on average`}`;
  return (
    <figure class="gpu">
      <figcaption><b>GPU {g.index}</b> <span class="muted">{g.name} · peak {bytes(peak)} of {bytes(total)}{mean !== null && ` · ${mean.toFixed(0)}% busy`}</span></figcaption>
      <h3>Memory</h3>
      <Chart label={`${said}. Memory`} time x={x} height={120} min={0} max={total ? total / GiB : undefined} legend={false} sync="gpus"
        series={[{ label: 'other users', values: memory[0], stroke: 'theirs', fill: 'next' }, { label: 'this batch', values: memory[1], stroke: 'ours', fill: true }]} format={(v) => `${+v.toFixed(1)} GiB`} />
      <h3>Utilization</h3>
      <Chart label={`${said}. Utilization`} time x={x} height={100} min={0} max={100} legend={false} sync="gpus"
        series={[{ label: 'this batch', values: util[0], stroke: 'ours', fill: true }, { label: 'other users', values: util[1], stroke: 'theirs', fill: true }, { label: 'both', values: util[2], stroke: 'busy', fill: true }]} format={(v) => `${v.toFixed(0)}%`} />
    </figure>
  );
}

// Lazy renders its content when it scrolls into view or is printed.
export function Lazy({ height, children }: { height: number; children: ComponentChildren }) {
  const [shown, show] = useState(false), ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const seen = new IntersectionObserver((all) => { if (all.some((e) => e.isIntersecting)) show(true); }, { rootMargin: '400px' });
    const printed = () => show(true);
    seen.observe(ref.current!);
    addEventListener('beforeprint', printed);
    return () => { seen.disconnect(); removeEventListener('beforeprint', printed); };
  }, []);
  return <div ref={ref} style={{ minHeight: shown ? undefined : `${height}px`, minWidth: 0 }}>{shown && children}</div>;
}
