// The Jobs tab: filters, a list that renders only visible rows, and actions for the
// selected jobs.
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Line } from '../common/chart';
import { bytes, clean, duration, measured, ranges, stamp } from '../common/format';
import { look, State, stateWords } from '../common/states';
import { linesFor, useWindow } from '../common/virtual';
import { Verbs, verbsFor } from './control';
import { metricsOf, says, select, sorted, sortOf, UnknownKey, type Sort, type SortBy } from './filter';
import { useKeys } from './keys';
import { now, useLive } from './live';
import { Empty, Loading, medium, Meter, narrow, say, Text, useMedia } from './parts';
import { Preview } from './preview';
import { busy, useReported, type Reported } from './reported';
import { go, jobPath, setQuery } from './route';
import type { BatchStore } from './store';
import type { JobRow } from '../common/types';

const roomy = matchMedia('(min-width: 1200px)');

export function JobsTab({ batch, query }: { batch: BatchStore; query: URLSearchParams }) {
  useLive();
  const show = query.get('show') ?? '', search = query.get('q') ?? '';
  const alive = batch.summary?.run?.alive ?? false;
  const order = query.get('sort') ?? (alive ? 'now' : 'file'), sort = sortOf(order);
  const metrics = useMemo(() => metricsOf(batch.jobs), [batch.revision]);
  const [rows, wrong] = useMemo((): [JobRow[], string] => {
    try { return [sorted(select(batch.jobs, show, search, alive), batch.jobs, sort), '']; } catch (err) {
      if (err instanceof UnknownKey) return [[], err.message];
      throw err;
    }
  }, [batch.revision, show, search, order, alive]);
  const [chosen, choose] = useState<ReadonlySet<string>>(new Set());
  const [at, setAt] = useState<string | null>(null); // id of the row with the cursor
  const find = useRef<HTMLInputElement>(null);

  const index = at ? rows.findIndex((r) => r.id === at) : -1;
  const current = index >= 0 ? rows[index] : at ? batch.byID.get(at) : undefined;
  const list = useRef<{ reveal(row: number): void }>(null);
  const move = (by: number) => {
    if (!rows.length) return;
    const to = Math.min(Math.max(index + by, 0), rows.length - 1);
    setAt(rows[to].id);
    list.current?.reveal(to);
    say(`${clean(rows[to].name)}, ${stateWords(rows[to].state)}, ${to + 1} of ${rows.length}`);
  };
  const toggle = (id: string) => {
    const next = new Set(chosen);
    next.has(id) ? next.delete(id) : next.add(id);
    choose(next);
  };
  useKeys([
    { keys: ['j', 'ArrowDown'], does: 'next job', run: () => move(1) },
    { keys: ['k', 'ArrowUp'], does: 'previous job', run: () => move(-1) },
    { keys: ['PageDown'], does: 'down 20 jobs', run: () => move(20) },
    { keys: ['PageUp'], does: 'up 20 jobs', run: () => move(-20) },
    { keys: ['Enter'], does: 'open the job', run: () => current && go(jobPath(batch.id, batch.keyOf(current))) },
    { keys: ['/'], does: 'search', run: () => { find.current?.focus(); find.current?.select(); } },
    { keys: ['Escape'], does: 'leave the search, then close the job', run: () => {
      if (document.activeElement === find.current) return search ? setQuery({ q: '' }) : find.current!.blur();
      if (chosen.size) choose(new Set()); else setAt(null);
    } },
    { keys: ['x'], does: 'select the job', run: () => { if (current) toggle(current.id); } },
  ]);

  if (!batch.loaded && !batch.jobs.length) return <Loading what="the jobs" />;
  const picked = chosen.size ? [...chosen].map((id) => batch.byID.get(id)).filter((r): r is JobRow => !!r) : [];
  return (
    <>
      <div class="filters">
        <input ref={find} type="search" class="find" placeholder="Search: name, error, seed=1, state:failed, gpu:0" aria-label="Search the jobs" value={search}
          onInput={(e) => setQuery({ q: e.currentTarget.value })} />
        <select class="sort" aria-label="Order" value={order} onChange={(e) => setQuery({ sort: e.currentTarget.value })}>
          <option value="now">running first</option><option value="file">in file order</option><option value="started down">latest start first</option><option value="ended down">latest end first</option>
          <option value="lasted down">longest first</option><option value="lasted">shortest first</option><option value="name">by name</option><option value="name down">by name, reversed</option><option value="state">by state</option><option value="state down">by state, reversed</option>
          {metrics.flatMap((m) => [<option value={`metric:${m}`}>{m}, smallest first</option>, <option value={`metric:${m} down`}>{m}, largest first</option>])}
        </select>
      </div>
      {picked.length > 0 && (
        <div class="chosen">
          <b>{picked.length.toLocaleString('en-US')} selected</b>
          <Verbs label="Actions for the selected jobs" verbs={verbsFor(batch.id, batch.summary, picked)} />
          <button class="button" onClick={() => choose(new Set())}>None</button>
        </div>
      )}
      <div class={current && roomy.matches ? 'split' : ''}>
        {rows.length ? <List {...{ batch, rows, metrics, chosen, choose, toggle, at, setAt, sort, list }} /> :
          <Empty>{wrong ? <Text of={wrong} /> : search ? <>No job matches “{search}”.</> : 'No such jobs.'} {(search || show) && <a href="#" onClick={(e) => { e.preventDefault(); setQuery({ q: '', show: '' }); }}>Show all</a>}</Empty>}
        {current && roomy.matches && <Preview batch={batch} row={current} onClose={() => setAt(null)} />}
      </div>
    </>
  );
}

interface ListProps {
  batch: BatchStore; rows: JobRow[]; metrics: string[]; chosen: ReadonlySet<string>; choose: (s: ReadonlySet<string>) => void;
  toggle: (id: string) => void; at: string | null; setAt: (id: string) => void; sort: Sort;
  list: { current: { reveal(row: number): void } | null };
}

function List({ batch, rows, metrics, chosen, choose, toggle, at, setAt, sort, list }: ListProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const small = useMedia(narrow), middle = useMedia(medium);
  // Rows are high enough for the longest name, because jobs may differ only at its end.
  const longest = useMemo(() => rows.reduce((n, r) => Math.max(n, r.name.length), 1), [rows]), room = scroller.current?.querySelector('td.c-name')?.clientWidth ?? 260;
  const clock = now(), running = rows.some((r) => r.state === 'running');
  // Beside the progress of running jobs, a page of medium width has room for two short lines.
  const lines = Math.max(linesFor(longest, room - (small ? 0 : 24)), running && middle && !small ? 2 : 1);
  const height = 14 + 16 * lines + (small ? 26 : 0), head = small ? 0 : 32;
  const win = useWindow(scroller, rows.length, height, head);
  list.current = { reveal: (row) => { win.reveal(row); scroller.current?.scrollIntoView({ block: 'nearest' }); } };
  // The list ends at the bottom of the window, so that only one thing scrolls.
  useLayoutEffect(() => {
    const e = scroller.current!, room = innerHeight - (e.getBoundingClientRect().top + scrollY) - 16;
    const most = `${Math.max(room, small ? innerHeight - 120 : 320)}px`;
    if (e.style.maxHeight !== most) e.style.maxHeight = most;
  });
  const open = (r: JobRow) => { if (roomy.matches) setAt(r.id); else go(jobPath(batch.id, batch.keyOf(r))); };
  const all = rows.length > 0 && chosen.size >= rows.length && rows.every((r) => chosen.has(r.id));
  const reported = useReported(batch, rows.slice(win.from, win.to).filter((r) => r.state === 'running'));
  return (
    <div class={`card jobs scroll ${running ? 'going' : ''}`} ref={scroller} style={{ '--row': `${height}px`, '--lines': lines, ...(longest < 30 && { '--name': `${Math.round(longest * 7.3) + 36}px` }) }}>
      <table class="data" role="table" aria-rowcount={rows.length + 1} aria-label="Jobs">
        <thead role="rowgroup"><tr role="row" aria-rowindex={1}>
          <th role="columnheader" class="pick"><input type="checkbox" aria-label="Select all listed jobs" checked={all} onChange={() => choose(all ? new Set() : new Set(rows.map((r) => r.id)))} /></th>
          <Head by="state" sort={sort} cls="c-state">State</Head><Head by="name" sort={sort} cls="c-name">Job</Head>
          <th role="columnheader" class="c-gpu">GPU</th>{running && <th role="columnheader" class="c-left">Progress</th>}<Head by="lasted" sort={sort} cls="c-time num">Time</Head><th role="columnheader" class="c-try num">Tries</th>
          {metrics.map((m) => <Head by={`metric:${m}`} sort={sort} cls="c-metric num">{m}</Head>)}
          <th role="columnheader" class="c-says">Details</th>
        </tr></thead>
        <tbody role="rowgroup">
          {win.above > 0 && <tr role="none" class="gap" style={{ height: `${win.above}px` }} />}
          {rows.slice(win.from, win.to).map((r, i) => (
            <tr key={r.id} role="row" aria-rowindex={win.from + i + 2} aria-selected={r.id === at} class={r.id === at ? 'at' : ''} onClick={() => open(r)}>
              <td role="cell" class="pick" onClick={(e) => e.stopPropagation()}><input type="checkbox" aria-label={`Select ${clean(r.name)}`} checked={chosen.has(r.id)} onChange={() => toggle(r.id)} /></td>
              <td role="cell" class="c-state"><State state={r.state} stalled={r.stalled} /></td>
              <td role="cell" class="c-name"><a href={jobPath(batch.id, batch.keyOf(r))} onClick={(e) => e.stopPropagation()} title={clean(r.name)}><Text of={r.name} /></a></td>
              <td role="cell" class="c-gpu">{r.gpus.length ? ranges(r.gpus) : ''}</td>
              {running && <td role="cell" class="c-left">{r.state === 'running' && <Left row={r} clock={clock} />}</td>}
              <td role="cell" class="c-time num" title={r.started ? `${stamp(r.started)} – ${stamp(r.ended)}` : ''}>{lasted(r, clock)}</td>
              <td role="cell" class="c-try num">{r.attempts > 1 ? r.attempts : ''}</td>
              {metrics.map((m) => <td role="cell" class="c-metric num">{measured(r.metrics?.[m])}</td>)}
              <td role="cell" class={`c-says ${look(r.state).tone}`} title={says(r)}><span>{says(r) || (r.state === 'running' && <Newest of={reported.get(r.uni_id!)} />)}</span></td>
            </tr>
          ))}
          {win.below > 0 && <tr role="none" class="gap" style={{ height: `${win.below}px` }} />}
        </tbody>
      </table>
    </div>
  );
}

// A running job's progress: from its log, or from the time that similar jobs took.
function Left({ row: r, clock }: { row: JobRow; clock: number }) {
  const ran = (clock - Date.parse(r.started ?? '')) / 1000, part = r.progress ?? (r.expected_seconds ? Math.min(ran / r.expected_seconds, 0.99) : null);
  const left = part ? ran / part - ran : null, use = busy(r);
  return <>{part != null && <Meter label={`Progress of ${clean(r.name)}`} value={Math.round(part * 100)} max={100} />}<span>{[r.steps && r.progress && `${Math.round(r.progress * r.steps)}/${r.steps}`, left != null && isFinite(left) && !r.stalled && `${duration(left)} left`].filter(Boolean).join(' ')}</span>{r.used_bytes != null && <span class="muted">{bytes(r.used_bytes)}</span>}{use != null && <span class="muted" title="utilization of its GPUs">{use} %</span>}</>;
}

// A running job's newest metrics with sparklines, or the last line of its log.
function Newest({ of }: { of?: Reported }) {
  if (!of?.curves.length) return <span class="mono"><Text of={of?.line} /></span>;
  return <>{of.curves.slice(0, 2).map((c) => <span class="newest" key={c.metric}><span class="muted"><Text of={c.metric} /></span> {measured(c.values[c.values.length - 1])} <Line values={c.values.slice(-60)} label={`${clean(c.metric)} so far`} /></span>)}</>;
}

const lasted = (r: JobRow, clock: number) => r.started ? duration(((r.ended ? Date.parse(r.ended) : r.state === 'running' ? clock : NaN) - Date.parse(r.started)) / 1000) : '';

// A column head that sorts: descending, ascending, then file order.
function Head({ by, sort, cls, children }: { by: SortBy; sort: Sort; cls: string; children: string }) {
  const is = sort.by === by;
  const next = !is ? by : sort.down ? '' : `${by} down`;
  return (
    <th role="columnheader" class={cls} aria-sort={is ? (sort.down ? 'descending' : 'ascending') : 'none'}>
      <button onClick={() => setQuery({ sort: next })}>{children}</button>
    </th>
  );
}
