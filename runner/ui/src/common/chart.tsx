// A chart over time or steps: uPlot, with the colors of the theme.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import './chart.css';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { clock } from './lanes';
import { color } from './states';

// A fill goes down to zero, or to the next series.
export type Series = { label: string; values: (number | null)[]; stroke: string; fill?: boolean | 'next'; dash?: number[] };
type Props = {
  label: string; // for people who cannot see it
  x: number[]; // seconds since 1970 with time, else steps
  series: Series[];
  time?: boolean;
  height?: number;
  min?: number;
  max?: number;
  format?: (v: number) => string;
  points?: boolean; // show each, if there are few
  legend?: boolean;
  sync?: string; // charts with the same key share their cursor
};

// useTheme makes its component draw again when the theme changes.
export function useTheme() {
  const [n, set] = useState(0);
  useEffect(() => {
    const changed = () => set((n) => n + 1);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', changed);
    const seen = new MutationObserver(changed);
    seen.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    return () => { dark.removeEventListener('change', changed); seen.disconnect(); };
  }, []);
  return n;
}

// useWidth returns the width of an element, 0 until it is known.
export function useWidth(ref: { current: HTMLElement | null }) {
  const [width, set] = useState(0);
  useLayoutEffect(() => {
    const el = ref.current!;
    const look = () => { if (el.clientWidth) set(Math.floor(el.clientWidth)); }; // what is hidden keeps its width
    const seen = new ResizeObserver(look);
    look();
    seen.observe(el);
    addEventListener('beforeprint', look); // paper is not observed
    addEventListener('afterprint', look);
    return () => { seen.disconnect(); removeEventListener('beforeprint', look); removeEventListener('afterprint', look); };
  }, []);
  return width;
}

// Steps are whole numbers.
const whole = [0, 1, 2, 3, 4, 5, 6, 7, 8].flatMap((n) => [1, 2, 5].map((m) => m * 10 ** n));

export function Chart(p: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const width = useWidth(box), theme = useTheme();
  const shape = JSON.stringify([theme, p.label, p.height, p.min, p.max, p.time, p.series.map((s) => [s.label, s.stroke])]);
  const data = [p.x, ...p.series.map((s) => s.values)] as uPlot.AlignedData;
  useLayoutEffect(() => { // so that no frame is without it
    if (!width) return;
    const axis = { stroke: color('fg-2'), grid: { stroke: color('line-2'), width: 1 }, ticks: { stroke: color('line-2'), width: 1 }, font: '11px sans-serif' };
    const format = p.format ?? ((v: number) => `${+v.toPrecision(6)}`);
    const options: uPlot.Options = {
      width, height: p.height ?? 180, ms: 1e-3 as const,
      legend: { show: p.legend ?? true, live: true },
      cursor: { points: { size: 6 }, sync: p.sync ? { key: p.sync } : undefined, drag: { x: true, y: false } },
      scales: { x: { time: p.time ?? false }, y: { range: (_, lo, hi) => [p.min ?? lo, p.max ?? (lo === hi ? hi + 1 : hi + (hi - (p.min ?? lo)) * 0.06)] } },
      bands: p.series.flatMap((s, i) => (s.fill === 'next' ? [{ series: [i + 1, i + 2] as [number, number], fill: `${color(s.stroke)}33` }] : [])),
      padding: [8, 12, 0, 0],
      axes: [{ ...axis, size: 28, space: 70, incrs: p.time ? undefined : whole, values: p.time ? (_, ts, __, ___, step) => ts.map((t) => clock(t, step)) : undefined }, { ...axis, size: 58, values: (_, vs) => vs.map(format) }],
      series: [{ label: p.time ? 'time' : 'step', value: (_: uPlot, v: number) => (v == null ? '–' : p.time ? clock(v, 1) : `${v}`) }, ...p.series.map((s) => ({
        label: s.label, stroke: color(s.stroke), width: 1.5, dash: s.dash, points: { show: (p.points ?? true) && p.x.length < 40, size: 4 }, spanGaps: false,
        fill: s.fill === true ? `${color(s.stroke)}33` : undefined,
        value: (_: uPlot, v: number | null) => (v == null ? '–' : format(v)),
      }))],
    };
    const u = new uPlot(options, data, box.current!);
    plot.current = u;
    return () => { u.destroy(); plot.current = null; };
  }, [shape, width > 0]);
  useLayoutEffect(() => { if (width) plot.current?.setSize({ width, height: p.height ?? 180 }); }, [width, p.height]);
  useEffect(() => { plot.current?.setData(data); }, [p.x, p.series]);
  return <div class="chart" ref={box} role="img" aria-label={p.label} />;
}
