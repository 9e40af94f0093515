// The Log tab: one job's log, beside a list of jobs.
import { clean, ranges } from '../common/format';
import { State } from '../common/states';
import { useJob } from './job';
import { useKeys } from './keys';
import { useLive } from './live';
import { LogView } from './log';
import { Empty, Lasted, Text } from './parts';
import { batchPath, jobPath, setQuery } from './route';
import type { BatchStore } from './store';
import type { JobRow } from '../common/types';

const most = 60;

// A tab for each attempt if there are several, and the log of the selected one.
function Attempts({ batch, row, asked }: { batch: BatchStore; row: JobRow; asked: string | null }) {
  const all = useJob(batch, row.id).doc?.attempts.filter((a) => a.uni_id) ?? [];
  const uniID = all.find((a) => a.uni_id === asked)?.uni_id ?? row.uni_id;
  if (!uniID) return <Empty>This job has not run yet.</Empty>;
  return (
    <>
      <nav class="tabs" hidden={all.length < 2} aria-label="Attempts">{all.map((a, i) => <a href={batchPath(batch.id, 'log', { job: batch.keyOf(row), attempt: a.uni_id! })} aria-current={a.uni_id === uniID ? 'page' : undefined}>{i + 1} <State state={a.state} /></a>)}</nav>
      <LogView key={uniID} batch={batch.id} uniID={uniID} name={clean(row.name)} over={row.state !== 'running' || uniID !== row.uni_id} />
    </>
  );
}

export function LogTab({ batch, query }: { batch: BatchStore; query: URLSearchParams }) {
  useLive();
  const chosen = query.get('job');
  const running = batch.jobs.filter((j) => j.state === 'running');
  const ended = batch.jobs.filter((j) => j.state !== 'running' && j.uni_id && j.ended)
    .sort((a, b) => (a.ended! < b.ended! ? 1 : -1)).slice(0, Math.max(most - running.length, 8));
  const list = [...running.slice(0, most), ...ended];
  const row = (chosen && batch.find(chosen)) || list[0];
  const step = (by: number) => {
    const to = list[Math.min(Math.max(list.indexOf(row) + by, 0), list.length - 1)];
    if (to) setQuery({ job: batch.keyOf(to), attempt: '', line: '' });
  };
  useKeys([
    { keys: ['j'], does: 'next log', run: () => step(1) },
    { keys: ['k'], does: 'previous log', run: () => step(-1) },
  ]);
  if (!row) return <Empty>No job has run yet.</Empty>;
  const item = (r: JobRow) => (
    <li key={r.id}><button class="item" aria-current={r === row ? 'true' : undefined} onClick={() => setQuery({ job: batch.keyOf(r), attempt: '', line: '' })}>
      <State state={r.state} stalled={r.stalled} /><span class="name" title={clean(r.name)}><Text of={r.name} /></span>
      <span class="muted">{r.gpus.length > 0 && `GPU ${ranges(r.gpus)} · `}<Lasted from={r.started} to={r.state === 'running' ? null : r.ended} /></span>
    </button></li>
  );
  return (
    <div class="logs">
      <nav class="card pickjob" aria-label="Jobs with a log"><ul>{list.map(item)}</ul></nav>
      <section class="card" aria-label="Log">
        <header><h2><a href={jobPath(batch.id, batch.keyOf(row))}><Text of={row.name} /></a></h2><State state={row.state} stalled={row.stalled} /></header>
        <Attempts key={row.id} batch={batch} row={row} asked={query.get('attempt')} />
      </section>
    </div>
  );
}
