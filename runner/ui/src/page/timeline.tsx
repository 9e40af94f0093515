// The Timeline tab: the batch's attempts by GPU.
import { useMemo } from 'preact/hooks';
import { Attempts, lanesOf } from '../common/attempts';
import { clean } from '../common/format';
import { useDocument } from './document';
import { now, useLive } from './live';
import { Empty, Loading } from './parts';
import { go, jobPath } from './route';
import type { BatchStore } from './store';
import type { Timeline } from '../common/types';

export function TimelineTab({ batch }: { batch: BatchStore }) {
  useLive();
  const { doc, error } = useDocument<Timeline>(batch, '/timeline'), clock = now() / 1000;
  const lanes = useMemo(() => doc && lanesOf(doc.attempts, doc.readings, clock), [doc]);
  if (error && !doc) return <Empty>{error.message}</Empty>;
  if (!lanes) return <Loading what="the timeline" />;
  if (!lanes.items.length) return <Empty>No job has run yet.</Empty>;
  for (const i of lanes.items) {
    if (!i.open) continue;
    i.to = lanes.to = clock;
    const stalled = batch.find(i.of.job)?.stalled;
    if (i.of.started) Object.assign(i, { tone: stalled ? 'bad' : 'run', label: clean(i.of.job) + (stalled ? ' (stalled)' : '') });
  }
  return (
    <section class="card" aria-label="Timeline"><div class="body">
      <Attempts lanes={lanes} now={clock} open={(a) => go(jobPath(batch.id, a.job, { attempt: a.uni_id ?? '' }))} />
    </div></section>
  );
}
