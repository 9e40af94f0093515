// A batch: its progress, its run, and the tabs below.
import { Failures } from '../common/failures';
import { Bar, Legend } from '../common/five';
import { clean, duration, stamp, time } from '../common/format';
import { Runs } from '../common/runs';
import { given, OutcomeBadge } from '../common/states';
import { Usage } from '../common/usage';
import { titleOf } from './batches';
import { RetryGroup, RunControl } from './control';
import { JobsTab } from './jobs';
import { Asked } from './document';
import { searchOf } from './filter';
import { useKeys } from './keys';
import { useLive } from './live';
import { LogTab } from './logtab';
import { LogView } from './log';
import { Empty, Lasted, Loading, Text } from './parts';
import { ResultsTab } from './results';
import { batchPath, go, jobPath, tabs, type Tab } from './route';
import type { BatchStore } from './store';
import { TimelineTab } from './timeline';
import type { Alike, BatchUsage, RunRow, Summary } from '../common/types';

export function BatchPage({ batch, tab, query }: { batch: BatchStore; tab: Tab; query: URLSearchParams }) {
  useLive();
  useKeys(tabs.map(([t, word], i) => ({ keys: [String(i + 1)], does: word.toLowerCase(), run: () => go(batchPath(batch.id, t)) })));
  const s = batch.summary;
  if (batch.missing) return <main id="main"><h1>No such batch</h1><p>{batch.missing.message}</p><p><a href="#/">All batches</a></p></main>;
  if (!s) return <main id="main"><Loading what="the batch" /></main>;
  return (
    <main id="main" class="batch">
      <Top s={s} chosen={tab === 'jobs' ? query.get('show') ?? undefined : undefined} />
      {s.warnings.map((w) => <p class="callout warn"><b>Warning:</b> <Text of={w.text} />{w.hint && <span class="muted"> <Text of={w.hint} /></span>}</p>)}
      {s.alike.length > 0 && <section class="card" aria-label="Failures"><div class="body">
        <Failures groups={s.alike} name={(j) => <a key={j} href={jobPath(batch.id, j)}><Text of={j} /></a>} all={(g) => <a href={failed(batch.id, g)}>all {g.count.toLocaleString('en-US')}</a>}
          log={(g) => g.uni_id && <LogView batch={batch.id} uniID={g.uni_id} name={clean(g.jobs[0])} over />} actions={(g) => <RetryGroup batch={batch} group={g} />} />
      </div></section>}
      <nav class="tabs" aria-label="Parts of the batch">
        {tabs.map(([t, word]) => <a key={t} href={batchPath(batch.id, t)} aria-current={tab === t ? 'page' : undefined}>{word}</a>)}
      </nav>
      {tab === 'jobs' && <JobsTab batch={batch} query={query} />}
      {tab === 'log' && <LogTab batch={batch} query={query} />}
      {tab === 'timeline' && <TimelineTab batch={batch} />}
      {tab === 'results' && <ResultsTab batch={batch} query={query} />}
      {tab === 'usage' && <Asked<BatchUsage> key={tab} batch={batch} path="/usage" what="the GPU time" show={(u) => (u.parts.length ? <section class="card" aria-label="Usage"><div class="body"><Usage of={u} /></div></section> : <Empty>No run has used GPUs.</Empty>)} />}
      {tab === 'runs' && <Asked<{ runs: RunRow[] }> key={tab} batch={batch} path="/runs" what="the runs" show={({ runs }) => (runs.length ? <div class="card"><Runs runs={runs} live={s.run?.alive && <Lasted from={s.run.started} />} /></div> : <Empty>No runs yet.</Empty>)} />}
    </main>
  );
}

function Top({ s, chosen }: { s: Summary; chosen?: string }) {
  const run = s.run, alive = run?.alive ?? false;
  const facts = [
    run?.started && <>started <span title={stamp(run.started)}>{time(run.started)}</span></>,
    run?.alive && <>for <Lasted from={run.started} /></>,
    !run?.alive && run?.ended && run.started && <>took {duration((Date.parse(run.ended) - Date.parse(run.started)) / 1000)}</>,
    run?.git && <>commit <span class="mono">{run.git.commit.slice(0, 9)}</span>{run.git.dirty ? ' with changes' : ''}</>,
    run?.sim && <>on simulated GPUs</>,
    s.batch.params && <>with <Text of={given(s.batch.params)} /></>,
  ].filter(Boolean);
  return (
    <header class="top">
      <div class="title">
        <h1><Text of={titleOf(s.batch)} /></h1><OutcomeBadge of={s.outcome} stalled={s.tally.stalled} /><span class="grow" />
        <RunControl batch={s.batch.id} summary={s} />
      </div>
      <p class="muted path"><Text of={s.batch.work_dir} /></p>
      <p class="stateline"><Text of={s.line} /></p>
      <Bar counts={s.counts} alive={alive} />
      <div class="line">
        <Legend counts={s.counts} alive={alive} chosen={chosen} link={(is) => ({ href: batchPath(s.batch.id, 'jobs', { show: is === chosen ? '' : is }) })} />
        {facts.map((f) => <span class="muted">{f}</span>)}
      </div>
    </header>
  );
}

// A link to the jobs of a failure group: by what sets them apart, or by their error.
const failed = (id: string, g: Alike) => batchPath(id, 'jobs', {
  show: 'failed', q: g.params ? searchOf(g.params) : `error:${g.kind}`,
});
