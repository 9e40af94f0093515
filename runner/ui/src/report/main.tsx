// The report of a batch. Its data is embedded, so it makes no requests.
import '../common/theme.css';
import './report.css';
import { render } from 'preact';
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { Attempts, lanesOf } from '../common/attempts';
import { Curves } from '../common/curves';
import { Failures } from '../common/failures';
import { cleanLog, count, duration, seconds, stamp } from '../common/format';
import { ResultsTable } from '../common/results';
import { Runs } from '../common/runs';
import { Usage } from '../common/usage';
import { GPUs, Lazy } from './gpus';
import { JobDialog } from './job';
import { Jobs, type Choice } from './jobs';
import { Summary } from './summary';
import type { Copies, Document as Results, Report } from '../common/types';

// read returns the embedded data, which is compressed if large.
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
  const lanes = useMemo(() => lanesOf(r.jobs.flatMap((j, at) => j.attempts.map((a) => ({ ...a, job: j.name, at }))), r.readings, seconds(r.now)), [r]);
  const named = useMemo(() => new Map(r.jobs.map((j, i) => [j.name, i] as const).reverse()), [r]);
  const open = (name: string) => named.has(name) && setJob(named.get(name)!);
  const parts: [string, string, ComponentChildren, string?][] = [];
  if (r.failures.length) parts.push(['failures', 'Failures', (
    <Failures groups={r.failures} name={(name) => <button key={name} class="link" onClick={() => open(name)}>{name}</button>}
      all={(f) => <a href="#jobs" onClick={() => choose({ failure: r.failures.indexOf(f) })}>all {count(f.count, 'job')}</a>}
      log={(f) => f.lines.length > 0 ? <pre class="log" ref={(e) => { if (e) e.scrollTop = e.scrollHeight; }} tabIndex={0} aria-label={`Last lines of the log of ${f.jobs[0]}`}>{cleanLog(f.lines.join('\n'))}</pre> : <p class="muted">The log of {f.jobs[0]} is empty or gone.</p>} />
  ), `${count(r.failures.length, 'kind')}, ${count(r.failures.reduce((n, f) => n + f.count, 0), 'job')}`]);
  if (lanes.items.length) parts.push(['timeline', 'Timeline', <Attempts lanes={lanes} now={seconds(r.now)} open={(a) => setJob(a.at)} />]);
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

// Prints in the light theme and at the width of the paper, because canvases do not resize by themselves.
addEventListener('beforeprint', () => { document.documentElement.dataset.theme = 'light'; document.documentElement.classList.add('paper'); });
addEventListener('afterprint', () => { delete document.documentElement.dataset.theme; document.documentElement.classList.remove('paper'); });

read().then((r) => {
  const app = document.getElementById('app')!;
  app.textContent = '';
  render(<App r={r} />, app);
  performance.mark('shown');
}).catch((e) => { document.getElementById('app')!.textContent = `This report cannot be shown: ${e.message}`; });
