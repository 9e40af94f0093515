// A job's page: its command, why it is in its state, its attempts, and the log of one of them.
import { useMemo } from 'preact/hooks';
import { base, bytes, clean, count, duration, flat, measured, ranges, stamp, time } from '../common/format';
import { Chart } from '../common/chart';
import { State } from '../common/states';
import { Verbs, verbsFor } from './control';
import { useDocument } from './document';
import { useKeys } from './keys';
import { useLive } from './live';
import { LogView } from './log';
import { Lasted, Loading, Text } from './parts';
import { batchPath, go, jobPath, setQuery } from './route';
import type { BatchStore } from './store';
import type { AttemptRow, Because, Curves as CurvesDoc, JobDetail } from '../common/types';

export function JobPage({ batch, id, query }: { batch: BatchStore; id: string; query: URLSearchParams }) {
  useLive();
  const { doc, error } = useJob(batch, id);
  const step = (by: number) => {
    const here = batch.find(id), to = here && batch.jobs[here.index + by];
    if (to) go(jobPath(batch.id, batch.keyOf(to)));
  };
  useKeys([
    { keys: ['j'], does: 'next job in the file', run: () => step(1) },
    { keys: ['k'], does: 'previous job in the file', run: () => step(-1) },
    { keys: ['Escape'], does: 'back to the batch', run: () => go(batchPath(batch.id)) },
  ]);
  if (error && !doc) return <main id="main"><h1>No such job</h1><p><Text of={error.message} /></p><p><a href={batchPath(batch.id)}>All jobs of the batch</a></p></main>;
  if (!doc) return <main id="main"><Loading what="the job" /></main>;
  const { job } = doc, row = batch.find(id);
  const attempts = [...doc.attempts].filter((a) => a.uni_id).reverse();
  const shown = attempts.find((a) => a.uni_id === query.get('attempt')) ?? attempts[0];
  return (
    <main id="main" class="job">
      <div class="title"><h1><Text of={job.name} /></h1><span class="big"><State state={row?.state ?? job.state} stalled={row?.stalled} /></span><span class="grow" />
        <Verbs label="Actions for the job" verbs={verbsFor(batch.id, batch.summary, [row ?? { file: doc.batch.files.findIndex((f) => f.path === job.file), name: job.name, state: job.state, wait: null }]).filter((v) => !v.href)} /></div>
      <div class="columns">
        <div>
          <Why job={job} row={row?.wait?.text} />
          <Attempts attempts={attempts} shown={shown} />
          {shown && (
            <section class="card" aria-label="Log">
              <header><h2>Log</h2>{attempts.length > 1 && <span class="muted">of attempt {position(attempts, shown)}</span>}</header>
              <LogView key={shown.uni_id} batch={batch.id} uniID={shown.uni_id!} name={clean(job.name)} over={shown.ended != null} />
            </section>
          )}
        </div>
        <div>
          <Facts batch={batch} job={job} />
          {shown && <Curves key={shown.uni_id} batch={batch} uniID={shown.uni_id!} pruned={shown.state === 'pruned'} />}
        </div>
      </div>
    </main>
  );
}

/** A job with its attempts. */
export const useJob = (batch: BatchStore, id: string) => useDocument<JobDetail>(batch, '/jobs/' + encodeURIComponent(batch.find(id)?.id ?? id), 1000);

function Why({ job, row }: { job: Because; row?: string }) {
  const wait = job.wait;
  return (
    <section class="card" aria-labelledby="why-title">
      <header><h2 id="why-title">Why</h2></header>
      <div class="body">
        <ol class="chain">{job.chain.map((c, i) => <li class={i ? '' : 'first'}><Text of={c} /></li>)}</ol>
        {!job.chain.length && row && <p><Text of={row} /></p>}
        {wait && wait.gpus.length > 0 && (
          <table class="data compact">
            <caption>Suitable GPUs</caption>
            <tbody>{wait.gpus.map((g) => <tr key={g.uuid}><th scope="row">GPU {g.index}</th><td><Text of={g.text} /></td></tr>)}</tbody>
          </table>
        )}
        {wait?.until && <p class="muted">Waits until {time(wait.until)}.</p>}
        {job.plan && job.plan.expected_seconds != null && <p class="muted">Similar jobs take {duration(job.plan.expected_seconds)}.</p>}
      </div>
    </section>
  );
}

// Each run numbers its attempts from 1. The page numbers them across runs.
const position = (attempts: AttemptRow[], a: AttemptRow) => attempts.length - attempts.indexOf(a);

function Attempts({ attempts, shown }: { attempts: AttemptRow[]; shown?: AttemptRow }) {
  if (!attempts.length) return null;
  return (
    <section class="card" aria-labelledby="attempts-title">
      <header><h2 id="attempts-title">Attempts</h2><span class="muted">{count(attempts.length, 'attempt')}, latest first</span></header>
      <div class="scroll"><table class="data folds" role="table">
        <thead role="rowgroup"><tr role="row">{['#', 'State', 'Started', 'Lasted', 'GPU', 'Memory', 'Why it ended'].map((h, i) => <th role="columnheader" class={[0, 3, 5].includes(i) ? 'num' : ''}>{h}</th>)}</tr></thead>
        <tbody role="rowgroup">{attempts.map((a) => (
          <tr key={a.uni_id} role="row" class={a === shown ? 'at' : ''} onClick={() => setQuery({ attempt: a.uni_id!, line: '' })}>
            <td role="cell" data-head="#" class="num"><a href={location.hash} aria-current={a === shown ? 'true' : undefined} aria-label={`Attempt ${position(attempts, a)}`} onClick={(e) => { e.preventDefault(); setQuery({ attempt: a.uni_id!, line: '' }); }}>{position(attempts, a)}</a></td>
            <td role="cell" data-head="State"><State state={a.state} /></td>
            <td role="cell" data-head="Started" class="nowrap" title={stamp(a.started)}>{time(a.started)}</td>
            <td role="cell" data-head="Lasted" class="num">{a.ended ? duration(a.seconds) : <Lasted from={a.started} />}</td>
            <td role="cell" data-head="GPU">{a.gpus.length ? ranges(a.gpus.map((g) => g.index)) : ''}</td>
            <td role="cell" data-head="Memory" class="num" title="peak use of its reserved memory">{memory(a)}</td>
            <td role="cell" data-head="Why" class="words">{a.cause ? <span><Text of={a.cause.text} />{a.charged === false && <span class="muted"> (spent no retry)</span>}</span> : a.exit_code ? `exit ${a.exit_code}` : ''}
              {a.background.map((b) => <div class="muted">left running: <Text of={b.command} /></div>)}</td>
          </tr>
        ))}</tbody>
      </table></div>
    </section>
  );
}

function memory(a: AttemptRow): string {
  const most = a.gpus.map((g) => g.peak_bytes ?? g.used_bytes).filter((v): v is number => v != null);
  return most.length ? `${bytes(Math.max(...most))} of ${bytes(a.gpus[0].granted_bytes)}` : '';
}

function Facts({ batch, job }: { batch: BatchStore; job: Because }) {
  const params = Object.entries(job.params ?? {});
  const byName = useMemo(() => new Map(batch.jobs.map((j) => [j.name, j])), [batch.lists]);
  return (
    <section class="card" aria-labelledby="what-title">
      <header><h2 id="what-title">Details</h2></header>
      <div class="body">
        <dl class="facts">
          {params.length > 0 && <><dt>Parameters</dt><dd>{params.map(([k, v]) => <span class="param"><span class="muted"><Text of={k} />=</span><Text of={v} /></span>)}</dd></>}
          {job.gpus && <><dt>GPUs</dt><dd>{job.gpus.min === job.gpus.max ? job.gpus.max : `${job.gpus.min} to ${job.gpus.max}`}{job.gpu_memory_bytes ? ` with ${bytes(job.gpu_memory_bytes)} each` : ''}</dd></>}
          {job.needs.length > 0 && <><dt>Needs</dt><dd><ul class="needs">{job.needs.slice(0, 20).map((n) => {
            const r = byName.get(n);
            return <li>{r ? <><a href={jobPath(batch.id, batch.keyOf(r))}><Text of={n} /></a> <State state={r.state} /></> : <Text of={n} />}</li>;
          })}{job.needs.length > 20 && <li class="muted">and {job.needs.length - 20} more</li>}</ul></dd></>}
          {job.priority !== 0 && <><dt>Priority</dt><dd>{job.priority}</dd></>}
          {job.queue && <><dt>Queue</dt><dd><Text of={job.queue} /></dd></>}
          {job.tags.length > 0 && <><dt>Tags</dt><dd><Text of={job.tags.join(', ')} /></dd></>}
          {job.metrics && Object.entries(flat(job.metrics)).map(([k, v]) => <><dt><Text of={k} /></dt><dd>{measured(v)}</dd></>)}
          <dt>Defined in</dt><dd><Text of={base(job.file)} />{job.line != null && `, line ${job.line}`}</dd>
        </dl>
        {job.commands.map((c) => <pre class="log command" tabIndex={0} role="region" aria-label="Command"><Text of={c.trimEnd()} /></pre>)}
      </div>
    </section>
  );
}

function Curves({ batch, uniID, pruned }: { batch: BatchStore; uniID: string; pruned: boolean }) {
  const { doc } = useDocument<CurvesDoc>(batch, `/attempts/${encodeURIComponent(uniID)}/curves`, 5000);
  const curves = (doc?.curves ?? []).filter((c) => c.steps.length > 1).slice(0, 12);
  if (!curves.length) return null;
  return (
    <section class="card" aria-labelledby="curves-title">
      <header><h2 id="curves-title">Curves</h2></header>
      <div class="body curves">{curves.map((c, i) => (
        <figure key={c.metric}><figcaption><Text of={c.metric} /></figcaption>
          <Chart label={`${clean(c.metric)} over ${c.steps.length} steps, now ${measured(c.values[c.values.length - 1])}`} x={c.steps} series={[{ label: clean(c.metric), values: c.values, stroke: `s${(i % 8) + 1}`, stops: pruned ? c.steps.slice(-1) : undefined }]} height={130} legend={false} sync="job" /></figure>
      ))}</div>
    </section>
  );
}
