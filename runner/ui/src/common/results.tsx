// The table of results below its headline: numbers, missing seeds, and links to the jobs of each cell.
import { useMemo, useRef, useState } from 'preact/hooks';
import { clean, copy } from './format';
import { look } from './states';
import { useWindow } from './virtual';
import type { Copies, DocCell, Document, DocRow } from './types';

type Params = Record<string, string>;
interface Props {
  doc: Document;
  sort: string; // index of a column; "-" before it reverses the order
  sortBy: (sort: string) => void;
  jobs: (params: Params) => { href: string; onClick?: () => void }; // link to the jobs with these parameters
  copies: () => Promise<Copies>;
}

export function ResultsTable({ doc, sort, sortBy, jobs, copies }: Props) {
  const heads = [...doc.by, ...doc.columns], best = doc.rows.some((r) => r.best), at = Math.abs(parseInt(sort)), down = sort.startsWith('-');
  const goal = (i: number) => doc.metrics.find((m) => m.name === doc.rows[0]?.cells[i - doc.by.length]?.metric)?.goal;
  const rows = useMemo(() => {
    const value = (r: DocRow) => { const v = at < doc.by.length ? r.params[heads[at]] : r.cells[at - doc.by.length]?.mean; return v == null || v === '' ? null : isNaN(+v) ? v : +v; };
    return sort ? [...doc.rows].sort((x, y) => { const a = value(x), b = value(y); return a === null ? 1 : b === null ? -1 : (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1); }) : doc.rows;
  }, [doc, sort]);
  const turn = (i: number) => { const first = i >= doc.by.length && goal(i) !== 'min' ? `-${i}` : `${i}`, second = first.startsWith('-') ? `${i}` : `-${i}`; sortBy(sort === first ? second : sort === second ? '' : first); };
  // A long table renders only visible rows. All rows have the same height.
  const scroller = useRef<HTMLDivElement>(null), many = rows.length > 200, height = innerWidth > 520 ? 31 : 20 * (heads.length + (best ? 1 : 0)) + 13;
  const seen = useWindow(scroller, rows.length, height, 31), win = many ? seen : { from: 0, to: rows.length, above: 0, below: 0 };
  return (
    <>
      {doc.headline && <p class="headline">{clean(doc.headline)}</p>}
      <div class={`scroll results ${many ? 'many' : ''}`} ref={scroller} style={{ '--row': `${height}px` }} tabIndex={0} role="region" aria-label="Results table"><table class="data folds" role="table" aria-rowcount={rows.length + 1}>
        <thead role="rowgroup"><tr role="row" aria-rowindex={1}>
          {heads.map((h, i) => <th role="columnheader" class={i < doc.by.length ? '' : 'num'} aria-sort={sort && at === i ? (down ? 'descending' : 'ascending') : 'none'}>
            <button onClick={() => turn(i)}>{clean(h)}</button>{goal(i) && <span class="muted" title={goal(i) === 'max' ? 'higher is better' : 'lower is better'}> {goal(i)}</span>}</th>)}
          {best && <th role="columnheader">Best of</th>}
        </tr></thead>
        <tbody role="rowgroup">{win.above > 0 && <tr role="none" class="gap" style={{ height: `${win.above}px` }} />}{rows.slice(win.from, win.to).map((r, i) => (
          <tr role="row" aria-rowindex={win.from + i + 2}>
            {doc.by.map((p, i) => <td role={i ? 'cell' : 'rowheader'} class={i ? '' : 'first'} data-head={p}>{clean(r.params[p] ?? '')}</td>)}
            {r.cells.map((c, k) => <td role="cell" class="num" data-head={doc.columns[k]}><Cell cell={c} link={jobs({ ...r.params, ...(doc.pivot && c.pivot ? { [doc.pivot]: c.pivot } : {}) })} /></td>)}
            {best && <td role="cell" data-head="Best of">{r.best && `${r.best.complete} of ${r.best.of}`}</td>}
          </tr>
        ))}{win.below > 0 && <tr role="none" class="gap" style={{ height: `${win.below}px` }} />}</tbody>
      </table></div>
      <p class="muted caption">{[doc.caption, ...doc.notes].map(clean).join(' · ')}</p>
      {doc.warnings.map((w) => <p class="state warn caption">{clean(w)}</p>)}
      <Copy get={copies} />
    </>
  );
}

const odd: Record<string, { tone: string; symbol: string }> = { nan: { tone: 'bad', symbol: '≠' }, inf: { tone: 'bad', symbol: '∞' }, missing: { tone: 'warn', symbol: '?' }, stale: { tone: 'idle', symbol: '↺' } };
const marks = 8;

function Cell({ cell: c, link }: { cell: DocCell; link: { href: string; onClick?: () => void } }) {
  if (!c.of) return c.text ? <span class="muted">{c.text}</span> : null;
  const missing = c.missing.map((m) => `${m.unit} ${m.why}${m.counted ? ', counted' : ''}`.trim());
  return (
    <a {...link} class="cell" title={[...c.values.map((v) => `${v.unit}: ${v.value}`), ...missing].map(clean).join('\n')}>
      {c.best ? <b>{c.text}</b> : c.text || '–'}{(c.of > 1 || c.n < c.of) && <span class="muted"> ({c.n === c.of ? c.n : `${c.n}/${c.of}`})</span>}
      {missing.length > 0 && <span role="img" aria-label={clean(missing.join(', '))}>{c.missing.slice(0, marks).map((m) => { const { tone, symbol } = odd[m.why] ?? look(m.why); return <span class={`state ${tone}`}>{symbol}</span>; })}{missing.length > marks && ` +${missing.length - marks}`}</span>}
    </a>
  );
}

function Copy({ get }: { get: () => Promise<Copies> }) {
  const [done, set] = useState('');
  const put = (as: 'latex' | 'markdown' | 'csv', word: string) => get().then((c) => copy(c[as])).then(() => set(`${word} copied`), (err) => set(`Not copied: ${(err as Error).message}`));
  return (
    <p class="copy no-print" role="group" aria-label="Copy the table">Copy as {([['latex', 'LaTeX'], ['markdown', 'Markdown'], ['csv', 'CSV']] as const).map(([as, word]) => <button class="button small" onClick={() => put(as, word)}>{word}</button>)} <span class="muted" role="status">{done}</span></p>
  );
}
