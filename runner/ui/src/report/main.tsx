// The report of a batch. Its data is in the page; nothing is asked of anybody.
import '../common/theme.css';
import './report.css';
import { render } from 'preact';
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { Curves } from '../common/curves';
import { count, duration } from '../common/format';
import { ResultsTable } from '../common/results';
import { given, stateWords } from '../common/states';
import { Timeline } from '../common/timeline';
import { Usage } from '../common/usage';
import { Failures } from './failures';
import { GPUs, Lazy } from './gpus';
import { JobDialog } from './job';
import { Jobs, type Choice } from './jobs';
import { attemptWords, endOf, hours, seconds, stamp, timelineOf, until } from './model';
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
  if (r.failures.length) parts.push(['failures', 'Failures', <Failures r={r} open={open} pick={(failure) => choose({ failure })} />, `${count(r.failures.length, 'kind')}, ${count(r.failures.reduce((n, f) => n + f.count, 0), 'job')}`]);
  if (chart.items.length) {
    parts.push(['timeline', 'Timeline', (
      <>
        <Timeline label={`${count(chart.items.length, 'piece')} of work on ${count(chart.rows.length, 'row')}`} rows={chart.rows} items={chart.items} bands={chart.bands} from={chart.from} to={chart.to}
          tip={(it) => attemptWords(r.jobs[(it as typeof chart.items[0]).job], r.jobs[(it as typeof chart.items[0]).job].attempts[(it as typeof chart.items[0]).attempt])} onOpen={(it) => setJob((it as typeof chart.items[0]).job)} />
        <p class="legend">
          <span><i class="ok" />succeeded</span><span><i class="bad" />failed</span><span><i class="run" />running</span><span><i class="warn hatched" />had to leave its GPU, or was stopped</span><span>↻ a retry</span>
          {bands.has('theirs') && <span><i class="theirs thin" />others were there</span>}{bands.has('busy') && <span><i class="busy thin" />too full or busy</span>}{bands.has('warn') && <span><i class="warn thin" />limits</span>}
        </p>
      </>
    )]);
  }
  if (r.readings) parts.push(['gpus', 'GPUs', <GPUs r={r} />]);
  if (results?.rows.length) parts.push(['results', 'Results', <ResultsTable doc={results} sort={sort} sortBy={setSort} copies={async () => r.copies as Copies} jobs={(params) => ({ href: '#jobs', onClick: () => choose({ params }) })} />]);
  if (r.curves.length) parts.push(['curves', 'Curves', <Lazy height={380}><Curves curves={r.curves} results={results} params={(c) => r.jobs[named.get(c.job)!]?.params} /></Lazy>]);
  if (r.usage?.parts.length) parts.push(['lost', 'Where GPU time went', <Usage of={r.usage} />]);
  parts.push(['jobs', 'Jobs', <Jobs r={r} choice={choice} choose={choose} open={setJob} />]);
  if (r.runs.length) parts.push(['runs', 'Runs', <Runs r={r} />, count(r.runs.length, 'run')]);
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

function Runs({ r }: { r: Report }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of runs"><table class="data">
      <thead><tr>{['Run', 'Began', 'Ended', 'Took', 'Exit', 'How it ended', 'Jobs', 'Attempts', 'GPU hours', 'Commit', 'Host'].map((h, i) => <th scope="col" class={[0, 3, 4, 7, 8].includes(i) ? 'num' : ''}>{h}</th>)}</tr></thead>
      <tbody>{[...r.runs].reverse().map((x) => (
        <tr>
          <td class="num">{x.n}</td>
          <td class="nowrap">{stamp(x.started)}</td><td class="nowrap">{x.ended ? until(x.started, x.ended) : <span class="muted">{endOf(r, x) === r.now ? 'still running' : `last seen ${until(x.started, x.last_seen)}`}</span>}</td>
          <td class="num">{duration(seconds(endOf(r, x)) - seconds(x.started))}</td><td class="num">{x.exit_status ?? ''}</td><td>{x.why}{x.params && <div class="muted">with {given(x.params)}</div>}</td>
          <td>{Object.entries(x.counts).filter(([, n]) => n > 0).map(([s, n]) => <span class="pair">{n} {stateWords(s)}</span>)}</td>
          <td class="num">{x.attempts}</td><td class="num">{hours(x.gpu_seconds)}</td>
          <td class="mono">{x.git && x.git.commit.slice(0, 10) + (x.git.dirty ? '+' : '')}</td><td>{x.host}</td>
        </tr>
      ))}</tbody>
    </table></div>
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
