// What the jobs have measured, as a table over seeds, live.
import { useMemo } from 'preact/hooks';
import { CellText, digits } from '../common/cells';
import { useDocument } from './document';
import { Empty, Loading, Text } from './parts';
import { setQuery } from './route';
import type { BatchStore } from './store';
import type { DocCell as Cell, Document as Results, DocRow as ResultRow } from '../common/types';

const options = ['metric', 'pivot', 'best', 'versus', 'where', 'err', 'over', 'by', 'sort'] as const;

export function ResultsTab({ batch, query }: { batch: BatchStore; query: URLSearchParams }) {
  const asked = new URLSearchParams();
  for (const o of options) { const v = query.get(o); if (v) asked.set(o, v); }
  const { doc, error } = useDocument<Results>(batch, '/results' + (String(asked) ? '?' + asked : ''), 2000);
  const all = useDocument<Results>(batch, '/results', 10_000).doc; // what can be chosen
  const err = (query.get('err') ?? 'sd') as Err;
  if (!doc && !error) return <Loading what="the results" />;
  const params = all?.by ?? [], metrics = all?.metrics ?? [];
  const values = [...new Set((all?.rows ?? []).flatMap((r) => params.map((p) => `${p}=${r.params[p]}`)))].sort();
  const pick = (key: string, label: string, list: string[], none: string) => (
    <label class="pick-one">{label} <select value={query.get(key) ?? ''} onChange={(e) => setQuery({ [key]: e.currentTarget.value })}>
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
        <label class="pick-one">± <select value={err} onChange={(e) => setQuery({ err: e.currentTarget.value === 'sd' ? '' : e.currentTarget.value })}>
          <option value="sd">standard deviation</option><option value="sem">standard error</option><option value="ci95">95 % interval</option></select></label>
        <span class="grow" />
        <input type="search" class="find" placeholder="Where: dataset=svhn" aria-label="Only jobs where" value={query.get('where') ?? ''}
          onChange={(e) => setQuery({ where: e.currentTarget.value.trim() })} />
      </div>
      {error && <p class="callout bad"><Text of={error.message} /></p>}
      {doc && (doc.rows.length ? <Table doc={doc} err={err} sort={query.get('sort') ?? ''} /> : <Empty>No job has measured anything. <code>metrics</code> in the job file says where numbers are.</Empty>)}
    </>
  );
}

type Err = 'sd' | 'sem' | 'ci95';
interface Column { key: string; head: string; times: number; digits: number; cells: Cell[] }

const keyOf = (c: Cell) => `${c.metric}\n${c.pivot ?? ''}\n${c.versus}`;

function Table({ doc, err, sort }: { doc: Results; err: Err; sort: string }) {
  const columns = useMemo(() => columnsOf(doc, err), [doc, err]);
  const by = doc.by.filter((p) => p !== doc.pivot);
  const best = doc.rows.some((r) => r.best);
  const head = (key: string, text: string, cls = '') => {
    const is = sort.replace(/^-/, '') === key, down = sort.startsWith('-');
    return <th scope="col" class={cls} aria-sort={is ? (down ? 'descending' : 'ascending') : 'none'}><button onClick={() => setQuery({ sort: !is ? key : down ? '' : '-' + key })}>{text}</button></th>;
  };
  return (
    <>
      <div class="card scroll results"><table class="data">
        <caption class="hidden-text">{doc.caption}</caption>
        <thead><tr>
          {by.map((p) => head(p, p))}
          {columns.map((c) => doc.pivot || c.key.endsWith('true') ? <th scope="col" class="num">{c.head}</th> : head(c.key.split('\n')[0], c.head, 'num'))}
          {best && <th scope="col">Best of</th>}
        </tr></thead>
        <tbody>{doc.rows.map((r) => (
          <tr>
            {by.map((p, i) => i === 0 ? <th scope="row"><Text of={r.params[p]} /></th> : <td><Text of={r.params[p]} /></td>)}
            {columns.map((c) => <td class="num cell"><Value cell={r.cells.find((x) => keyOf(x) === c.key)} column={c} err={err} /></td>)}
            {best && <td><Best row={r} /></td>}
          </tr>
        ))}</tbody>
      </table></div>
      <p class="muted caption">{doc.caption}</p>
      {doc.notes.map((n) => <p class="muted caption"><Text of={n} /></p>)}
      {doc.warnings.map((w) => <p class="callout warn"><Text of={w} /></p>)}
    </>
  );
}

const Best = ({ row }: { row: ResultRow }) => row.best && <>{row.best.complete} of {row.best.of}</>;

// The half of the interval behind a cell's ±; a difference always has that of its pairs.
const errOf = (c: Cell, err: Err) => c[c.versus ? 'ci95' : err];

// Columns in the order of the cells.
function columnsOf(doc: Results, err: Err): Column[] {
  const seen = new Map<string, Column>();
  for (const r of doc.rows) {
    for (const c of r.cells) {
      const m = doc.metrics.find((m) => m.name === c.metric), name = c.metric + (m?.percent ? ' (%)' : '');
      const head = c.versus ? `− ${doc.versus?.split('=').pop()}` : c.pivot == null ? name : doc.metrics.length > 1 ? `${c.pivot} ${name}` : c.pivot;
      if (!seen.has(keyOf(c))) seen.set(keyOf(c), { key: keyOf(c), head, times: m?.percent ? 100 : 1, digits: 0, cells: [] });
      seen.get(keyOf(c))!.cells.push(c);
    }
  }
  for (const col of seen.values()) col.digits = digits(col.cells.map((c) => (errOf(c, err) ?? 0) * col.times), col.cells.map((c) => (c.mean ?? 0) * col.times));
  return [...seen.values()];
}

function Value({ cell, column, err }: { cell?: Cell; column: Column; err: Err }) {
  if (!cell) return <>–</>;
  return <span title={cell.values.map((v) => `${v.unit}: ${v.value}`).join('\n')}><CellText cell={cell} err={errOf(cell, err)} times={column.times} digits={column.digits} /></span>;
}
