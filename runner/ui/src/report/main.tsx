// The report of a batch. Its data is in the page; nothing is asked of anybody.
import '../common/theme.css';
import './report.css';
import { render } from 'preact';
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { Curves } from '../common/curves';
import { Failures } from '../common/failures';
import { cleanLog, count, duration } from '../common/format';
import { ResultsTable } from '../common/results';
import { Runs } from '../common/runs';
import { Timeline } from '../common/timeline';
import { Usage } from '../common/usage';
import { GPUs, Lazy } from './gpus';
import { JobDialog } from './job';
import { Jobs, type Choice } from './jobs';
import { attemptWords, seconds, stamp, timelineOf } from './model';
import { Summary } from './summary';
import type { Copies, Document as Results, Report } from '../common/types';

// read returns the data: plain, or compressed if there is much.
async function read(): Promise<Report> {
  const el = document.getElementById('data') as HTMLScriptElement, text = el.textContent!;
  if (el.type !== 'application/gzip') return JSON.parse(text);
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).json();
}

function Section({ id, title, note, children }: { id: string; title: string; note?: string; children: ComponentChildren }) {
  return (
    <section class="card" id={id} aria-labelledby={`${id}-title`}>
      <header><h2 id={`${id}-title`}>{title}</h2>{note && <span class="muted">{note}</span>}</header>
      <div class="body">{children}</div>
    </section>
  );
}

function App({ r }: { r: Report }) {
  const [choice, choose] = useState<Choice>({}), [job, setJob] = useState<number | null>(null), [sort, setSort] = useState('');
  const results = r.results as Results | null;
  const chart = useMemo(() => timelineOf(r), [r]);
  const named = useMemo(() => new Map(r.jobs.map((j, i) => [j.name, i] as const).reverse()), [r]);
  const open = (name: string) => named.has(name) && setJob(named.get(name)!);
  const bands = new Set(chart.bands.map((b) => b.color));
  const parts: [string, string, ComponentChildren, string?][] = [];
  if (r.failures.length) parts.push(['failures', 'Failures', (
    <Failures groups={r.failures} name={(name) => <button key={name} class="link" onClick={() => open(name)}>{name}</button>}
      all={(f) => <a href="#jobs" onClick={() => choose({ failure: r.failures.indexOf(f) })}>all {count(f.count, 'job')}</a>}
      log={(f) => f.lines.length > 0 ? <pre class="log" ref={(e) => { if (e) e.scrollTop = e.scrollHeight; }} tabIndex={0} aria-label={`Last lines of the log of ${f.jobs[0]}`}>{cleanLog(f.lines.join('\n'))}</pre> : <p class="muted">Its log is empty or gone.</p>} />
  ), `${count(r.failures.length, 'kind')}, ${count(r.failures.reduce((n, f) => n + f.count, 0), 'job')}`]);
  if (chart.items.length) {
    parts.push(['timeline', 'Timeline', (
      <>
        <Timeline label={`${count(chart.items.length, 'piece')} of work on ${count(chart.rows.length, 'row')}`} rows={chart.rows} items={chart.items} bands={chart.bands} from={chart.from} to={chart.to}
          tip={(it) => attemptWords(r.jobs[(it as typeof chart.items[0]).job], r.jobs[(it as typeof chart.items[0]).job].attempts[(it as typeof chart.items[0]).attempt])} onOpen={(it) => setJob((it as typeof chart.items[0]).job)} />
        <p class="legend">
          <span><i class="ok" />succeeded</span><span><i class="bad" />failed</span><span><i class="run" />running</span><span><i class="warn hatched" />had to leave its GPU, or was stopped</span><span>↻ a retry</span>
          {bands.has('theirs') && <span><i class="theirs thin" />used by others</span>}{bands.has('busy') && <span><i class="busy thin" />too full or busy</span>}{bands.has('warn') && <span><i class="warn thin" />limits</span>}
        </p>
      </>
    )]);
  }
  if (r.readings) parts.push(['gpus', 'GPUs', <GPUs r={r} />]);
  if (results?.rows.length) parts.push(['results', 'Results', <ResultsTable doc={results} sort={sort} sortBy={setSort} copies={async () => r.copies as Copies} jobs={(params) => ({ href: '#jobs', onClick: () => choose({ params }) })} />]);
  if (r.curves.length) parts.push(['curves', 'Curves', <Lazy height={380}><Curves curves={r.curves} results={results} params={(c) => r.jobs[named.get(c.job)!]?.params} /></Lazy>]);
  if (r.usage?.parts.length) parts.push(['lost', 'Where GPU time went', <Usage of={r.usage} />]);
  parts.push(['jobs', 'Jobs', <Jobs r={r} choice={choice} choose={choose} open={setJob} />]);
  if (r.runs.length) parts.push(['runs', 'Runs', <Runs runs={r.runs} live={r.run?.alive && r.run.started && duration(seconds(r.now) - seconds(r.run.started))} />, count(r.runs.length, 'run')]);
  return (
    <>
      <nav class="bar no-print" aria-label="Sections"><div>{parts.map(([id, title]) => <a href={`#${id}`}>{title}</a>)}</div></nav>
      <main>
        <Summary r={r} pick={(state) => choose({ state })} />
        {parts.map(([id, title, body, note]) => <Section id={id} title={title} note={note}>{body}</Section>)}
        <footer class="muted">gpurun report of {stamp(r.now)}. Times are in your time zone. State: <span class="mono">{r.batch.state_dir}</span></footer>
      </main>
      {job !== null && <JobDialog r={r} at={job} open={open} close={() => setJob(null)} />}
    </>
  );
}

// On paper it is light, and as wide as the paper: canvases do not adapt by themselves.
addEventListener('beforeprint', () => { document.documentElement.dataset.theme = 'light'; document.documentElement.classList.add('paper'); });
addEventListener('afterprint', () => { delete document.documentElement.dataset.theme; document.documentElement.classList.remove('paper'); });

read().then((r) => {
  const app = document.getElementById('app')!;
  app.textContent = '';
  render(<App r={r} />, app);
  performance.mark('shown');
}).catch((e) => { document.getElementById('app')!.textContent = `This report cannot be shown: ${e.message}`; });
