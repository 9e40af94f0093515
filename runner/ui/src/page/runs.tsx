// What became of each run of a batch.
import { Bar, Legend } from '../common/five';
import { count, duration, time, timeExact } from '../common/format';
import { given } from '../common/states';
import { useDocument } from './document';
import { Empty, Lasted, Loading, Text } from './parts';
import type { BatchStore } from './store';
import type { RunRow } from '../common/types';

export function RunsTab({ batch }: { batch: BatchStore }) {
  const { doc, error } = useDocument<{ runs: RunRow[] }>(batch, '/runs', 5000);
  if (error && !doc) return <Empty>{error.message}</Empty>;
  if (!doc) return <Loading what="the runs" />;
  if (!doc.runs.length) return <Empty>It has never run.</Empty>;
  return (
    <div class="card scroll" tabIndex={0} role="region" aria-label="Runs"><table class="data">
      <caption class="hidden-text">Runs, the last first</caption>
      <thead><tr><th scope="col" class="num">Run</th><th scope="col">Started</th><th scope="col" class="num">Lasted</th><th scope="col">Jobs</th><th scope="col">How it ended</th><th scope="col" class="num">GPU time</th><th scope="col" class="num">Retries</th><th scope="col">GPU time lost to</th></tr></thead>
      <tbody>{[...doc.runs].reverse().map((r) => (
        <tr key={r.started}>
          <td class="num">{r.n}</td>
          <td class="nowrap" title={timeExact(r.started)}>{time(r.started)}</td>
          <td class="num">{r.ended == null && batch.summary?.run?.alive && batch.summary.run.started === r.started ? <Lasted from={r.started} /> : duration((Date.parse(r.ended ?? r.last_seen) - Date.parse(r.started)) / 1000)}</td>
          <td class="wide"><Bar counts={r.counts} alive={false} small /><Legend counts={r.counts} alive={false} /></td>
          <td class="words"><Text of={r.why} />{r.params && <div class="muted">with <Text of={given(r.params)} /></div>}{r.git && <div class="muted">commit <span class="mono">{r.git.commit.slice(0, 9)}</span>{r.git.dirty ? ' with changes' : ''}</div>}
            {r.alike.slice(0, 2).map((a) => <div class="bad">{count(a.count, 'job')}: <Text of={a.cause.text} /></div>)}</td>
          <td class="num">{duration(r.gpu_seconds)}</td>
          <td class="num">{r.retries || ''}</td>
          <td>{r.lost.slice(0, 3).map((l) => <div class="nowrap">{duration(l.gpu_seconds)} <span class="muted"><Text of={l.user ? `${l.user} (${words(l.code)})` : words(l.code)} /></span></div>)}</td>
        </tr>
      ))}</tbody>
    </table></div>
  );
}

const words = (code: string) => code.replaceAll('_', ' ');
