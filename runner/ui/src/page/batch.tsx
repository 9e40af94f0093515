// A batch: how far it is, its run, and its jobs, logs, timeline and results.
import { useState } from 'preact/hooks';
import { count, duration, time, timeExact } from '../common/format';
import { given, OutcomeBadge } from '../common/states';
import { titleOf } from './batches';
import { RunControl } from './control';
import { JobsTab } from './jobs';
import { useKeys } from './keys';
import { useLive } from './live';
import { LogTab } from './logtab';
import { inWords, Lasted, Loading, Progress, Text, totals } from './parts';
import { ResultsTab } from './results';
import { batchPath, go, tabs, type Tab } from './route';
import { RunsTab } from './runs';
import type { BatchStore } from './store';
import { TimelineTab } from './timeline';
import type { Alike, Summary } from './types';

export function BatchPage({ batch, tab, query }: { batch: BatchStore; tab: Tab; query: URLSearchParams }) {
  useLive();
  useKeys(tabs.map(([t, word], i) => ({ keys: [String(i + 1)], does: word.toLowerCase(), run: () => go(batchPath(batch.id, t)) })));
  const s = batch.summary;
  if (batch.missing) return <main id="main"><h1>No such batch</h1><p>{batch.missing.message}</p><p><a href="#/batches">All batches</a></p></main>;
  if (!s) return <main id="main"><Loading what="the batch" /></main>;
  return (
    <main id="main" class="batch">
      <Top s={s} />
      {s.warnings.map((w) => <p class="callout warn"><b>Warning:</b> <Text of={w.text} />{w.hint && <span class="muted"> <Text of={w.hint} /></span>}</p>)}
      <nav class="tabs" aria-label="Parts of the batch">
        {tabs.map(([t, word]) => <a key={t} href={batchPath(batch.id, t)} aria-current={tab === t ? 'page' : undefined}>{word}</a>)}
      </nav>
      {tab === 'jobs' && <><Failures batch={batch} alike={s.alike} /><JobsTab batch={batch} query={query} /></>}
      {tab === 'log' && <LogTab batch={batch} query={query} />}
      {tab === 'timeline' && <TimelineTab batch={batch} />}
      {tab === 'results' && <ResultsTab batch={batch} query={query} />}
      {tab === 'runs' && <RunsTab batch={batch} />}
    </main>
  );
}

function Top({ s }: { s: Summary }) {
  const t = totals(s.counts), run = s.run;
  const facts = [
    run?.started && <>started <span title={timeExact(run.started)}>{time(run.started)}</span></>,
    run?.alive && <>for <Lasted from={run.started} /></>,
    !run?.alive && run?.ended && run.started && <>took {duration((Date.parse(run.ended) - Date.parse(run.started)) / 1000)}</>,
    run?.alive && s.eta_seconds != null && t.left + t.running > 0 && <b>about {duration(s.eta_seconds)} to go</b>,
    run?.git && <>commit <span class="mono">{run.git.commit.slice(0, 9)}</span>{run.git.dirty ? ' with changes' : ''}</>,
    run?.sim && <>on simulated GPUs</>,
    s.batch.params && <>with <Text of={given(s.batch.params)} /></>,
  ].filter(Boolean);
  return (
    <header class="top">
      <div class="title">
        <h1><Text of={titleOf(s.batch)} /></h1><OutcomeBadge of={s.outcome} /><span class="grow" />
        <RunControl batch={s.batch.id} summary={s} />
      </div>
      <p class="muted path"><Text of={s.batch.work_dir} /></p>
      <Progress counts={s.counts} />
      <p class="line">
        <span><b>{t.done.toLocaleString('en-US')}</b> of {t.total.toLocaleString('en-US')} done</span>
        {t.bad > 0 && <span class="bad"><b>{t.bad.toLocaleString('en-US')}</b> failed</span>}
        {t.off > 0 && <span class="warn"><b>{t.off.toLocaleString('en-US')}</b> held up</span>}
        {t.running > 0 && <span class="run"><b>{t.running.toLocaleString('en-US')}</b> running</span>}
        {t.left > 0 && <span><b>{t.left.toLocaleString('en-US')}</b> to do</span>}
        {facts.map((f) => <span class="muted">{f}</span>)}
      </p>
      <p class="hidden-text">{inWords(s.counts)}</p>
    </header>
  );
}

// Failures that are alike, so that 200 of them are one line.
function Failures({ batch, alike }: { batch: BatchStore; alike: Alike[] }) {
  const [all, showAll] = useState(false);
  if (!alike.length) return null;
  const shown = all ? alike : alike.slice(0, 3);
  return (
    <section class="callout bad" aria-label="Failures">
      <ul>{shown.map((a) => (
        <li><b>{count(a.count, 'job')} failed:</b> <Text of={a.cause.text} /> <span class="muted">
          {a.jobs.slice(0, 3).map((j, i) => <>{i > 0 && ', '}<a href={batchPath(batch.id, 'jobs', { show: 'failed', q: j })}><Text of={j} /></a></>)}{a.count > 3 && ` and ${a.count - 3} more`}</span></li>
      ))}</ul>
      {alike.length > 3 && <button class="plain link" onClick={() => showAll(!all)}>{all ? 'fewer' : `${alike.length - 3} more kinds`}</button>}
    </section>
  );
}
