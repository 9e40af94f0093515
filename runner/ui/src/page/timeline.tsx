// The attempts of a batch over its GPUs.
import { useMemo } from 'preact/hooks';
import { clean, duration, timeExact } from '../common/format';
import { handedOver, look, stateWords } from '../common/states';
import { Timeline } from '../common/timeline';
import { bandsOf, Rows, type Item } from '../common/lanes';
import { useDocument } from './document';
import { now, useLive } from './live';
import { Empty, Loading } from './parts';
import { go, jobPath } from './route';
import type { BatchStore } from './store';
import type { Span, Timeline as Data } from '../common/types';

export function TimelineTab({ batch }: { batch: BatchStore }) {
  useLive();
  const { doc, error } = useDocument<Data>(batch, '/timeline');
  const made = useMemo(() => doc && pieces(doc), [doc]);
  if (error && !doc) return <Empty>{error.message}</Empty>;
  if (!made) return <Loading what="the timeline" />;
  if (!made.items.length) return <Empty>No job has run yet.</Empty>;
  const open = made.items.filter((i) => i.open);
  const to = open.length ? now() / 1000 : Math.max(...made.items.map((i) => i.to));
  for (const i of open) {
    const stalled = batch.find(i.span.name)?.stalled;
    Object.assign(i, { to, tone: stalled ? 'bad' : 'run', label: clean(i.span.name) + (stalled ? ' (stalled)' : '') });
  }
  return (
    <section class="card" aria-label="Timeline"><div class="body">
      <Timeline label={`Timeline of ${made.items.length} attempts on ${made.rows.length} rows`} rows={made.rows} items={made.items} bands={made.bands} from={made.items[0].from} to={to}
        tip={(i) => tip((i as Piece).span)} onOpen={(i) => go(jobPath(batch.id, (i as Piece).span.name, { attempt: (i as Piece).span.uni_id ?? '' }))} />
      <p class="legend">{['ok', 'bad', 'warn', 'run'].map((t) => <span><i class={`tone ${t}`} />{({ ok: 'succeeded', bad: 'failed', warn: 'had to leave', run: 'running' } as Record<string, string>)[t]}</span>)}<span><i class="tone theirs" />others, below jobs</span></p>
    </div></section>
  );
}

type Piece = Item & { span: Span; open: boolean };

function pieces(doc: Data) {
  const seen = new Rows(), spans = doc.spans.filter((s) => s.started);
  const read = (doc.readings?.gpus ?? []).map((g) => [g, seen.add('', { index: g.index })] as const); // all GPUs, also those without a job
  const keys = spans.map((s) => (s.gpus.length ? s.gpus.map((index) => seen.add(s.host ?? '', { index })) : [seen.add(s.host ?? '')]));
  const rows = seen.sort(), items: Piece[] = [];
  spans.forEach((span, i) => {
    const from = Date.parse(span.started!) / 1000, open = span.ended == null;
    const to = open ? from : Date.parse(span.ended!) / 1000;
    const piece = { from, to, tone: look(span.state).tone, label: clean(span.name), group: span.job, mark: span.n > 1 ? '↻' : undefined, hatch: handedOver(span.cause), span, open };
    for (const key of keys[i]) items.push({ ...piece, row: seen.where(key) });
  });
  items.sort((a, b) => a.from - b.from);
  return { rows, items, bands: bandsOf(doc.readings, (g) => seen.where(read.find(([of]) => of === g)![1])) };
}

function tip(s: Span): string[] {
  const seconds = ((s.ended ? Date.parse(s.ended) : now()) - Date.parse(s.started!)) / 1000;
  return [clean(s.name), `${stateWords(s.state)}${s.n > 1 ? `, try ${s.n}` : ''}${s.cause ? ` (${s.cause.replaceAll('_', ' ')})` : ''}`, `${timeExact(s.started)}, ${duration(seconds)}`];
}
