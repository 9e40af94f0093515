// A timeline of jobs by GPU, on a canvas, so that 10,000 jobs draw in a few milliseconds.
// Mouse: drag to zoom in, double-click to reset, Ctrl and wheel to zoom, click to open.
// Keyboard: + - 0, left and right, up and down for the next piece, Enter to open it.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useTheme, useWidth } from './chart';
import { clock, layout, ticks, type Band, type Item } from './lanes';
import { color } from './states';
import './timeline.css';

type Props = {
  label: string; // for screen readers
  rows: string[];
  items: Item[]; // sorted by start
  bands?: Band[]; // drawn behind the items: why a row is empty
  from: number;
  to: number;
  tip: (item: Item) => string[]; // the first line is a heading
  onOpen?: (item: Item) => void;
};
type Span = [number, number];
type Hit = { item?: number; band?: Band; x: number; y: number };

const left = (width: number, rows: string[]) => (width < 520 ? 52 : Math.min(width / 4, Math.max(84, 6.5 * Math.max(...rows.map((r) => r.length)) + 8)));
const axis = 22;

export function Timeline(p: Props) {
  const box = useRef<HTMLDivElement>(null), canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box), theme = useTheme();
  const [view, setView] = useState<Span | null>(null);
  const [hit, setHit] = useState<Hit | null>(null);
  const [drag, setDrag] = useState<Span | null>(null);
  const lay = useMemo(() => layout(p.rows.length, p.items), [p.rows.length, p.items]);
  const span: Span = view ?? [p.from, Math.max(p.to, p.from + 1)];
  const edge = left(width, p.rows), inner = Math.max(1, width - edge - 1);
  const x = (t: number) => edge + ((t - span[0]) / (span[1] - span[0])) * inner;
  const time = (px: number) => span[0] + ((px - edge) / inner) * (span[1] - span[0]);

  const zoom = (factor: number, at = (span[0] + span[1]) / 2) => {
    const length = Math.max(0.5, (span[1] - span[0]) * factor);
    if (length >= p.to - p.from) return setView(null);
    const from = Math.min(Math.max(p.from, at - ((at - span[0]) / (span[1] - span[0])) * length), p.to - length);
    setView([from, from + length]);
  };
  const pan = (part: number) => {
    const length = span[1] - span[0], from = Math.min(Math.max(p.from, span[0] + length * part), p.to - length);
    if (view) setView([from, from + length]);
  };

  useLayoutEffect(() => {
    if (width) draw(canvas.current!, p, lay, span, width, edge, x, hit?.item, drag);
  }, [width, theme, lay, p.bands, span[0], span[1], hit?.item, drag]);

  // The framework's wheel listeners are passive and could not stop the page from zooming.
  const wheel = useRef<(e: WheelEvent) => void>(() => {});
  wheel.current = (e) => {
    if (e.ctrlKey || e.metaKey) {
      e.preventDefault();
      zoom(Math.exp(e.deltaY / 300), time(e.offsetX));
    } else if (view && Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      e.preventDefault();
      pan(e.deltaX / inner);
    }
  };
  useEffect(() => {
    const listener = (e: WheelEvent) => wheel.current(e), el = canvas.current!;
    el.addEventListener('wheel', listener, { passive: false });
    return () => el.removeEventListener('wheel', listener);
  }, []);

  const find = (px: number, py: number): Hit => {
    const t = time(px), slack = ((span[1] - span[0]) / inner) * 2;
    const row = lay.rows.findIndex((r) => py >= r.y && py <= r.y + r.height);
    if (row < 0 || px < edge) return { x: px, y: py };
    const r = lay.rows[row], lane = Math.min(r.lanes - 1, Math.floor(((py - r.y) / r.height) * r.lanes));
    let best: number | undefined;
    for (const i of lay.byRow[row]) {
      const it = p.items[i];
      if (it.from > t + slack) break;
      if (lay.lane[i] === lane && it.to >= t - slack) best = i;
    }
    const band = best === undefined ? p.bands?.find((b) => b.row === row && b.from <= t && b.to >= t) : undefined;
    return { item: best, band, x: px, y: py };
  };

  const walk = (by: number) => {
    const seen = p.items.map((_, i) => i).filter((i) => p.items[i].to >= span[0] && p.items[i].from <= span[1]);
    if (!seen.length) return;
    const at = hit?.item === undefined ? -1 : seen.indexOf(hit.item);
    const next = seen[at < 0 ? (by > 0 ? 0 : seen.length - 1) : Math.min(Math.max(at + by, 0), seen.length - 1)];
    const it = p.items[next], r = lay.rows[it.row];
    setHit({ item: next, x: Math.min(Math.max(x((Math.max(it.from, span[0]) + Math.min(it.to, span[1])) / 2), edge), width), y: r.y + (lay.lane[next] + 1) * (r.height / r.lanes) });
  };
  const key = (e: KeyboardEvent) => {
    const act: Record<string, () => void> = {
      '+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), '0': () => setView(null),
      ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), ArrowUp: () => walk(-1), ArrowDown: () => walk(1),
      Enter: () => hit?.item !== undefined && p.onOpen?.(p.items[hit.item]), Escape: () => setHit(null),
    };
    if (!act[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    act[e.key]();
  };

  const lines = hit?.item !== undefined ? p.tip(p.items[hit.item]) : hit?.band ? [hit.band.label] : [];
  const rect = canvas.current?.getBoundingClientRect();
  return (
    <div class="timeline">
      <div class="tools no-print" role="group" aria-label="Timeline zoom">
        <button class="button" onClick={() => zoom(0.5)} aria-label="Zoom in">+</button>
        <button class="button" onClick={() => zoom(2)} aria-label="Zoom out" disabled={!view}>−</button>
        <button class="button" onClick={() => setView(null)} disabled={!view}>All</button>
        <span class="muted">{view ? clock(span[0], 1) + ' – ' + clock(span[1], 1) : 'Drag to zoom in'}</span>
      </div>
      <div class="pane" ref={box}>
        <canvas ref={canvas} height={lay.height + axis} tabIndex={0} role="application" aria-label={`${p.label}. Up and down arrows: select a bar; plus and minus: zoom; left and right arrows: move; Enter: open.`}
          onKeyDown={key}
          onPointerDown={(e) => { if (e.button === 0 && e.pointerType === 'mouse' && e.offsetX >= edge) { canvas.current!.setPointerCapture(e.pointerId); setDrag([e.offsetX, e.offsetX]); } }}
          onPointerMove={(e) => { if (drag) setDrag([drag[0], e.offsetX]); else setHit(find(e.offsetX, e.offsetY)); }}
          onPointerLeave={() => { if (!drag) setHit(null); }}
          onPointerUp={(e) => {
            const d = drag;
            setDrag(null);
            if (d && Math.abs(d[1] - d[0]) > 6) {
              const [a, b] = [time(Math.min(...d)), time(Math.max(...d))];
              setView([Math.max(a, p.from), Math.min(Math.max(b, a + 0.5), Math.max(p.to, a + 0.5))]);
              return;
            }
            const found = find(e.offsetX, e.offsetY);
            setHit(found);
            if (found.item !== undefined) p.onOpen?.(p.items[found.item]);
          }}
          onDblClick={() => setView(null)} onBlur={() => setHit(null)} />
      </div>
      {lines.length > 0 && rect && hit && (
        <div class="tip" style={{ left: `${Math.max(8, Math.min(rect.left + hit.x + 14, innerWidth - 300))}px`, top: `${Math.min(rect.top + hit.y + 16, innerHeight - 130)}px` }}>
          {lines.map((l, i) => (i ? <div>{l}</div> : <b>{l}</b>))}
        </div>
      )}
      <div class="hidden-text" aria-live="polite">{lines.join(', ')}</div>
    </div>
  );
}

function draw(el: HTMLCanvasElement, p: Props, lay: ReturnType<typeof layout>, span: Span, width: number, edge: number, x: (t: number) => number, lit: number | undefined, drag: Span | null) {
  const scale = window.devicePixelRatio || 1, height = lay.height + axis;
  el.width = width * scale;
  el.height = height * scale;
  el.style.width = `${width}px`;
  el.style.height = `${height}px`;
  const c = el.getContext('2d')!, font = getComputedStyle(document.body).fontFamily;
  const named = new Map<string, string>(), paint = (n: string) => named.get(n) ?? (named.set(n, color(n)), named.get(n)!);
  c.scale(scale, scale);
  c.font = `11px ${font}`;
  c.textBaseline = 'middle';

  const times = ticks(span[0], span[1], Math.max(2, width / 90)), step = times.length > 1 ? times[1] - times[0] : 3600;
  for (const t of times) {
    c.fillStyle = paint('line-2');
    c.fillRect(Math.round(x(t)), 0, 1, lay.height);
    c.fillStyle = paint('fg-2');
    const text = clock(t, step), half = c.measureText(text).width / 2;
    if (x(t) - half > edge - 8 && x(t) + half < width) c.fillText(text, x(t) - half, lay.height + axis / 2);
  }
  lay.rows.forEach((r, i) => {
    c.fillStyle = paint('bg-2');
    c.fillRect(edge, r.y, width - edge, r.height);
    c.fillStyle = paint('fg');
    c.fillText(p.rows[i], 0, r.y + r.height / 2, edge - 8);
  });

  c.save();
  c.beginPath();
  c.rect(edge, 0, width - edge, lay.height);
  c.clip();
  for (const b of p.bands ?? []) {
    const r = lay.rows[b.row], a = x(b.from), z = x(b.to);
    if (z < edge || a > width) continue;
    c.globalAlpha = 0.45;
    c.fillStyle = paint(b.color);
    c.fillRect(a, r.y + r.height - 4, Math.max(1, z - a), 4);
    c.globalAlpha = 0.12;
    c.fillRect(a, r.y, Math.max(1, z - a), r.height);
  }
  c.globalAlpha = 1;
  const group = lit === undefined ? null : p.items[lit].group;
  const upTo = new Map<number, number>(); // by lane: right edge so far, in pixels
  p.items.forEach((it, i) => {
    const a = x(it.from), z = Math.max(x(it.to), a + 1);
    if (z < edge || a > width) return;
    const r = lay.rows[it.row], h = r.height / r.lanes, y = r.y + lay.lane[i] * h, mine = it.group === group;
    const slot = it.row * 64 + lay.lane[i];
    if (z - a <= 1 && !mine && it.tone === 'ok' && (upTo.get(slot) ?? -1) >= Math.floor(a)) return;
    upTo.set(slot, Math.floor(z));
    c.globalAlpha = group && !mine ? 0.35 : 1;
    const runs = it.tone === 'run', ink = paint(runs ? 'run' : 'bg'); // in grayscale, running ones still have an edge, and failed ones are hatched
    c.fillStyle = paint(runs ? 'run-bg' : it.tone);
    const w = Math.max(1, z - a - (z - a > 3 ? 1 : 0));
    c.fillRect(a, y + 0.5, w, h - 1);
    if (it.hatch && w > 4) hatch(c, a, y + 0.5, w, h - 1, ink);
    else if (it.tone === 'bad') hatch(c, a, y + h - 6.5, w, 6, ink);
    if (runs) { c.strokeStyle = ink; c.lineWidth = 1; c.strokeRect(a + 0.5, y + 1, Math.max(1, w - 1), h - 2); }
    if (mine) { c.strokeStyle = paint('fg'); c.lineWidth = 1.5; c.strokeRect(a + 0.5, y + 0.5, Math.max(1, w - 1), h - 1); }
    const from = Math.max(a, edge) + 4, room = z - from - 4, text = (it.tone === 'bad' ? '✗ ' : '') + (it.mark ? `${it.mark} ` : '') + it.label;
    if (h >= 12 && room > 30) {
      c.fillStyle = ink;
      c.fillText(fit(c, text, room), from, y + h / 2);
    } else if (h >= 9 && it.mark && room > 4) {
      c.fillStyle = ink;
      c.fillText(it.mark, from, y + h / 2);
    }
  });
  c.globalAlpha = 1;
  if (drag) { c.fillStyle = paint('focus'); c.globalAlpha = 0.2; c.fillRect(Math.min(...drag), 0, Math.abs(drag[1] - drag[0]), lay.height); }
  c.restore();
}

function hatch(c: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, stroke: string) {
  c.save();
  c.beginPath();
  c.rect(x, y, w, h);
  c.clip();
  c.strokeStyle = stroke;
  c.globalAlpha *= 0.45;
  c.lineWidth = 1.5;
  c.beginPath();
  for (let i = x - h; i < x + w; i += 6) { c.moveTo(i, y + h); c.lineTo(i + h, y); }
  c.stroke();
  c.restore();
}

// fit cuts the middle of a text that is wider than room.
function fit(c: CanvasRenderingContext2D, text: string, room: number): string {
  if (c.measureText(text).width <= room) return text;
  const n = Math.floor(room / 6.5);
  return n < 3 ? '' : `${text.slice(0, n >> 1)}…${text.slice(text.length + 1 - (n + 1 >> 1))}`;
}
