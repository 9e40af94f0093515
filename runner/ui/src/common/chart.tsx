// A chart over time or steps, as SVG in the theme's colors. Drag to zoom in, double-click to reset.
import './chart.css';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { clock, ticks } from './lanes';

// A fill reaches down to zero or to the next series. Stops mark where jobs were pruned.
export type Series = { label: string; values: (number | null)[]; stroke: string; fill?: boolean | 'next'; dash?: boolean; stops?: number[] };
type Props = {
  label: string; // for screen readers
  x: number[]; // Unix seconds with `time`, steps without
  series: Series[];
  time?: boolean;
  height?: number;
  min?: number;
  max?: number;
  format?: (v: number) => string;
  legend?: boolean;
  sync?: string; // charts with the same key share a cursor
};

// useTheme redraws its component when the theme changes.
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

// useWidth returns an element's width, 0 until it is known.
export function useWidth(ref: { current: HTMLElement | null }) {
  const [width, set] = useState(0);
  useLayoutEffect(() => {
    const el = ref.current!;
    const look = () => { if (el.clientWidth) set(Math.floor(el.clientWidth)); }; // a hidden element keeps its last width
    const seen = new ResizeObserver(look);
    look();
    seen.observe(el);
    addEventListener('beforeprint', look); // printing does not trigger the observer
    addEventListener('afterprint', look);
    return () => { seen.disconnect(); removeEventListener('beforeprint', look); removeEventListener('afterprint', look); };
  }, []);
  return width;
}

/** A line through values with gaps where values are missing; with a floor, the area above it. */
export function path(values: (number | null)[], x: (i: number) => number, y: (v: number) => number, floor?: (i: number) => number): string {
  let d = '', run: number[] = [];
  const put = (i: number, h: number, by = 'L') => { d += `${by}${x(i).toFixed(1)} ${h.toFixed(1)}`; };
  const end = () => {
    if (floor) run.reverse().forEach((i) => put(i, floor(i)));
    if (run.length) d += floor ? 'Z' : 'h0';
    run = [];
  };
  values.forEach((v, i) => { if (v == null) return end(); put(i, y(v), run.length ? 'L' : 'M'); run.push(i); });
  end();
  return d;
}

/** A small line without axes. */
export function Line({ values, label }: { values: (number | null)[]; label: string }) {
  const known = values.filter((v): v is number => v != null), lo = Math.min(...known), hi = Math.max(...known), w = 56, h = 14;
  return <svg class="sparkline" viewBox={`0 0 ${w} ${h}`} role="img" aria-label={label}><path d={path(values, (i) => 1 + (i / Math.max(values.length - 1, 1)) * (w - 2), (v) => (hi > lo ? 1 + (1 - (v - lo) / (hi - lo)) * (h - 2) : h / 2))} /></svg>;
}

// Roughly `about` round values in a range.
function scale(from: number, to: number, about: number, least = 0): number[] {
  const raw = Math.max((to - from) / Math.max(about, 1), least), ten = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find((m) => m * ten >= raw * 0.999)! * ten;
  const first = Math.ceil(from / step - 1e-9);
  return Array.from({ length: Math.max(0, Math.floor(to / step + 1e-9) - first + 1) }, (_, i) => (first + i) * step);
}

// The cursor position, shared by charts with the same key.
const pointed = new Set<(key: string, x: number | null) => void>();
function usePointer(key?: string): [number | null, (x: number | null) => void] {
  const [at, set] = useState<number | null>(null);
  useEffect(() => {
    const hear = (k: string, x: number | null) => { if (k === key) set(x); };
    pointed.add(hear);
    return () => void pointed.delete(hear);
  }, [key]);
  return [at, (x) => key ? pointed.forEach((f) => f(key, x)) : set(x)];
}

const left = 58, right = 12, top = 8, bottom = 20;
type Span = [number, number];

/** The limits of a chart. A resumed job may report earlier steps again. */
export const extent = (x: number[]): Span => x.reduce<Span>(([lo, hi], v) => [Math.min(lo, v), Math.max(hi, v)], [x[0], x[0]]);

export function Chart(p: Props) {
  const box = useRef<HTMLDivElement>(null), width = useWidth(box), height = p.height ?? 180, inner = Math.max(1, width - left - right);
  const [zoom, setZoom] = useState<Span | null>(null), [drag, setDrag] = useState<Span | null>(null), [at, point] = usePointer(p.sync);
  const [hidden, hide] = useState<ReadonlySet<string>>(new Set());
  const [from, to] = zoom ?? extent(p.x), span = to > from ? to - from : 1;
  const x = (v: number) => left + ((v - from) / span) * inner, back = (px: number) => from + ((px - left) / inner) * span;
  const format = p.format ?? ((v: number) => `${+v.toPrecision(6)}`);
  const { y, ys, lines } = useMemo(() => {
    const shown = p.series.filter((s) => !hidden.has(s.label));
    let lo = Infinity, hi = -Infinity;
    p.x.forEach((v, i) => {
      if (v >= from && v <= to) for (const s of shown) { const n = s.values[i]; if (n != null) { lo = Math.min(lo, n); hi = Math.max(hi, n); } }
    });
    if (lo > hi) [lo, hi] = [0, 1];
    const y0 = p.min ?? lo, y1 = p.max ?? (hi > y0 ? hi + (hi - y0) * 0.06 : y0 + 1);
    const y = (v: number) => top + (1 - (v - y0) / (y1 - y0)) * (height - top - bottom), at = (i: number) => x(p.x[i]);
    return { y, ys: scale(y0, y1, height / 36), lines: shown.map((s, k) => ({
      s, line: path(s.values, at, y), area: s.fill && path(s.values, at, y, (i) => y(s.fill === 'next' ? shown[k + 1]?.values[i] ?? y0 : Math.max(0, y0))),
    })) };
  }, [p.x, p.series, hidden, width, height, from, to]);
  const xs = p.time ? ticks(from, to, inner / 80) : scale(from, from + span, inner / 70, 1), step = xs.length > 1 ? xs[1] - xs[0] : 1;
  const near = at == null ? -1 : p.x.reduce((best, v, i) => (Math.abs(v - at) < Math.abs(p.x[best] - at) ? i : best), 0);
  const value = (s: Series) => (near >= 0 && s.values[near] != null ? format(s.values[near]!) : '');
  const here = near >= 0 ? (p.time ? clock(p.x[near], 1) : `step ${p.x[near]}`) : '';
  const toggle = (name: string) => hide((h) => { const next = new Set(h); if (!next.delete(name)) next.add(name); return next; });
  return (
    <div class="chart" ref={box}>
      {width > 0 && <svg width={width} height={height} role="img" aria-label={p.label}
        onPointerDown={(e) => { if (e.pointerType === 'mouse' && e.button === 0) { e.currentTarget.setPointerCapture(e.pointerId); setDrag([e.offsetX, e.offsetX]); } }}
        onPointerMove={(e) => { point(back(e.offsetX)); if (drag) setDrag([drag[0], e.offsetX]); }}
        onPointerLeave={() => point(null)}
        onPointerUp={() => {
          if (drag && Math.abs(drag[1] - drag[0]) > 6) setZoom([Math.max(from, back(Math.min(...drag))), Math.min(to, back(Math.max(...drag)))]);
          setDrag(null);
        }}
        onDblClick={() => setZoom(null)}>
        <path class="grid" d={ys.map((v) => `M${left} ${y(v)}H${width - right}`).join('') + xs.map((v) => `M${x(v)} ${top}V${height - bottom}`).join('')} />
        {ys.map((v) => <text class="tick" x={left - 6} y={y(v) + 4} text-anchor="end">{format(+v.toPrecision(9))}</text>)}
        {xs.map((v) => <text class="tick" x={x(v)} y={height - 5} text-anchor="middle">{p.time ? clock(v, step) : +v.toPrecision(9)}</text>)}
        <svg x={left - 2} width={inner + right} height={height} viewBox={`${left - 2} 0 ${inner + right} ${height}`}>
          {lines.map(({ s, line, area }) => <g style={{ color: `var(--${s.stroke})` }}>
            {area && <path class="area" d={area} />}<path class="line" d={line} stroke-dasharray={s.dash ? '6 3' : undefined} />
            {s.stops?.map((v) => { const h = s.values[p.x.indexOf(v)]; return h != null && <path class="stop" d={`M${x(v) - 4} ${y(h) - 4}l8 8m0 -8l-8 8`}><title>{s.label} was pruned at step {v}</title></path>; })}
            {near >= 0 && s.values[near] != null && <circle cx={x(p.x[near])} cy={y(s.values[near]!)} r="3" />}
          </g>)}
          {near >= 0 && <path class="cursor" d={`M${x(p.x[near])} ${top}V${height - bottom}`} />}
          {drag && <rect class="drag" x={Math.min(...drag)} width={Math.abs(drag[1] - drag[0])} height={height - bottom} />}
        </svg>
        {p.legend === false && here && <text class="here" x={width - right - 4} y={top + 12} text-anchor="end">{[here, ...p.series.filter(value).map((s) => (p.series.length > 1 ? `${s.label} ${value(s)}` : value(s)))].join(' · ')}</text>}
      </svg>}
      {p.legend !== false && <ul class="keys">{p.series.map((s) => (
        <li key={s.label}><button aria-pressed={!hidden.has(s.label)} onClick={() => toggle(s.label)}><i style={{ color: `var(--${s.stroke})` }} class={s.dash ? 'dash' : ''} />{s.label}{s.stops?.length ? ' ✂' : ''} <b>{value(s)}</b></button></li>
      ))}{here && <li class="muted">{here}</li>}</ul>}
    </div>
  );
}
