// The Results tab: a live table of metrics over seeds, with curves of running jobs.
import { useMemo } from 'preact/hooks';
import { Curves } from '../common/curves';
import { ResultsTable } from '../common/results';
import { get } from './api';
import { useDocument } from './document';
import { searchOf } from './filter';
import { Empty, Loading, Text } from './parts';
import { useReported } from './reported';
import { batchPath, setQuery } from './route';
import type { BatchStore } from './store';
import type { Copies, Document as Results } from '../common/types';

const options = ['metric', 'pivot', 'best', 'versus', 'where', 'err', 'over', 'by'] as const;

export function ResultsTab({ batch, query }: { batch: BatchStore; query: URLSearchParams }) {
  const asked = new URLSearchParams();
  for (const o of options) { const v = query.get(o); if (v) asked.set(o, v); }
  const search = String(asked) ? '?' + asked : '';
  const { doc, error } = useDocument<Results>(batch, '/results' + search, 2000);
  const all = useDocument<Results>(batch, search && '/results', 10_000).doc ?? doc; // all values of the filters
  if (!doc && !error) return <Loading what="the results" />;
  const params = all?.by ?? [], metrics = all?.metrics ?? [];
  const values = [...new Set((all?.rows ?? []).flatMap((r) => params.map((p) => `${p}=${r.params[p]}`)))].sort();
  const pick = (key: string, label: string, list: string[], none: string) => (
    <label class="pick-one">{label} <select value={query.get(key) ?? ''} onChange={(e) => setQuery({ [key]: e.currentTarget.value, sort: '' })}>
      <option value="">{none}</option>{list.map((v) => <option value={v}>{v}</option>)}
    </select></label>
  );
  return (
    <>
      <div class="filters">
        {metrics.length > 1 && pick('metric', 'Metric', metrics.map((m) => m.name), 'all')}
        {params.length > 0 && pick('pivot', 'Columns', params, 'metrics')}
        {params.length > 0 && pick('versus', 'Compared with', values, 'nothing')}
        {metrics.length > 0 && params.length > 1 && pick('best', 'Best by', metrics.map((m) => m.name), 'all settings')}
        <label class="pick-one">± <select value={query.get('err') ?? 'sd'} onChange={(e) => setQuery({ err: e.currentTarget.value === 'sd' ? '' : e.currentTarget.value })}>
          <option value="sd">standard deviation</option><option value="sem">standard error</option><option value="ci95">95 % interval</option></select></label>
        <span class="grow" />
        <input type="search" class="find" placeholder="Where: dataset=svhn" aria-label="Only jobs where" value={query.get('where') ?? ''}
          onChange={(e) => setQuery({ where: e.currentTarget.value.trim() })} />
      </div>
      {error && <p class="callout bad"><Text of={error.message} /></p>}
      {doc && (doc.rows.length ? (
        <section class="card" aria-label="Table of results"><div class="body">
          <ResultsTable doc={doc} sort={query.get('sort') ?? ''} sortBy={(sort) => setQuery({ sort })} copies={() => get<Copies>(batch.path('/results/copies' + search))}
            jobs={(p) => ({ href: batchPath(batch.id, 'jobs', { q: searchOf(p) }) })} />
        </div></section>
      ) : <Empty>No job has metrics. Define them under <code>metrics</code> in the job file.</Empty>)}
      <Running batch={batch} results={doc} />
    </>
  );
}

// Curves of running and pruned jobs.
function Running({ batch, results }: { batch: BatchStore; results: Results | null }) {
  const rows = batch.jobs.filter((j) => j.state === 'running' || j.state === 'pruned').sort((a, b) => (a.state < b.state ? 1 : a.state > b.state ? -1 : 0));
  const known = useReported(batch, rows), seen = rows.map((r) => known.get(r.uni_id!)?.curves);
  const curves = useMemo(() => rows.flatMap((r, i) => (seen[i] ?? []).filter((c) => c.steps.length > 1).map((c) => ({ ...c, job: r.name, uni_id: r.uni_id!, pruned: r.state === 'pruned' }))), seen);
  const of = useMemo(() => new Map(batch.jobs.map((j) => [j.uni_id, j.params])), [batch.revision]);
  if (!curves.length) return null;
  return (
    <section class="card" aria-labelledby="curves-title"><header><h2 id="curves-title">Curves of running{rows.some((r) => r.state === 'pruned') && ' and pruned'} jobs</h2></header>
      <div class="body"><Curves curves={curves} results={results} params={(c) => of.get(c.uni_id)} /></div></section>
  );
}
