// The list of all jobs: searchable, sortable, with only visible rows in the document.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { gpuWords } from '../common/attempts';
import { five, statesOf } from '../common/five';
import { count, duration, stamp } from '../common/format';
import { look, State } from '../common/states';
import { linesFor, useWindow } from '../common/virtual';
import { lastOf } from './model';
import type { ReportJob as Job, Report } from '../common/types';

export type Choice = { state?: string; failure?: number; params?: Record<string, string> };

type Column = { name: string; css: string; value: (j: Job, i: number) => string | number; text: (j: Job) => preact.ComponentChildren };
const columns: Column[] = [
  { name: 'Job', css: 'name', value: (j) => j.name, text: (j) => j.name },
  { name: 'State', css: 'what', value: (j) => tones.indexOf(look(j.state).tone) + j.state, text: (j) => <State state={j.state} /> },
  { name: 'Started', css: 'when', value: (j) => lastOf(j)?.started ?? '', text: (j) => stamp(lastOf(j)?.started) },
  { name: 'Time', css: 'num', value: (j) => lastOf(j)?.seconds ?? -1, text: (j) => duration(lastOf(j)?.seconds) },
  { name: 'Tries', css: 'num', value: (j) => j.attempts.length, text: (j) => j.attempts.length || '' },
  { name: 'On', css: 'on', value: (j) => lastOf(j)?.gpus[0]?.index ?? -1, text: (j) => (lastOf(j)?.started ? gpuWords(lastOf(j)!) : '') },
  { name: 'Why', css: 'why', value: (j) => j.cause?.text ?? j.wait?.text ?? '', text: (j) => j.cause?.text ?? j.wait?.text ?? '' },
];
const tones = ['bad', 'warn', 'run', 'idle', 'ok'];

export function Jobs({ r, choice, choose, open }: { r: Report; choice: Choice; choose: (c: Choice) => void; open: (job: number) => void }) {
  const [find, setFind] = useState(''), [sort, setSort] = useState<{ at: number; down: boolean } | null>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const rows = useMemo(() => {
    const words = find.toLowerCase().split(/\s+/).filter(Boolean);
    const states = choice.state && statesOf(choice.state, r.run?.alive ?? false);
    const list = r.jobs.map((_, i) => i).filter((i) => {
      const j = r.jobs[i];
      if (states && (j.former || !states.includes(j.state))) return false;
      if (choice.failure !== undefined && j.failure !== choice.failure) return false;
      if (choice.params && Object.entries(choice.params).some(([k, v]) => k in j.params && j.params[k] !== v)) return false;
      if (!words.length) return true;
      const text = `${j.name} ${Object.entries(j.params).map(([k, v]) => `${k}=${v}`).join(' ')} ${j.tags.join(' ')} ${j.cause?.text ?? ''} ${j.cause?.code ?? ''}`.toLowerCase();
      return words.every((w) => text.includes(w));
    });
    if (!sort) return list;
    const keys = r.jobs.map(columns[sort.at].value), sign = sort.down ? -1 : 1;
    return list.sort((a, b) => sign * (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : a - b));
  }, [r, find, sort, choice]);
  const lines = linesFor(r.jobs.reduce((n, j) => Math.max(n, j.name.length), 1), scroller.current?.querySelector('[data-row] .name')?.clientWidth ?? 350), rowHeight = 14 + 16 * lines;
  const win = useWindow(scroller, rows.length, rowHeight, 32);
  useEffect(() => { scroller.current!.scrollTop = 0; }, [find, sort, choice]);
  const chosen = choice.state ? five.find((f) => f.is === choice.state)!.word : choice.failure !== undefined ? `like: ${r.failures[choice.failure].cause.text}` : choice.params ? Object.entries(choice.params).map(([k, v]) => `${k}=${v}`).join(' ') : '';

  // Arrow keys move between visible jobs, and scroll.
  const key = (e: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[e.key];
    const row = (e.target as HTMLElement).closest<HTMLElement>('[data-row]');
    if (!by || !row) return;
    e.preventDefault();
    const next = Math.min(Math.max(+row.dataset.row! + by, 0), rows.length - 1);
    win.reveal(next);
    requestAnimationFrame(() => requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>(`[data-row="${next}"] button`)?.focus()));
  };
  return (
    <>
      <div class="controls no-print">
        <input type="search" aria-label="Find jobs" placeholder="Find by name, parameter or cause" value={find} onInput={(e) => setFind(e.currentTarget.value)} />
        {chosen && <button class="button chip" onClick={() => choose({})} aria-label={`Only ${chosen}; show all`}><span>{chosen}</span> ×</button>}
        <span class="muted" role="status">{rows.length === r.jobs.length ? count(rows.length, 'job') : `${rows.length.toLocaleString('en-US')} of ${count(r.jobs.length, 'job')}`}</span>
      </div>
      <div class="joblist scroll" ref={scroller} role="table" aria-label="Jobs" aria-rowcount={rows.length + 1} onKeyDown={key} style={{ '--row': `${rowHeight}px`, '--lines': lines, height: win.paper ? 'auto' : `${Math.min(720, rows.length * rowHeight + 36)}px` }}>
        <div class="jobrow heads" role="row" aria-rowindex={1}>{columns.map((c, i) => {
          const on = sort?.at === i;
          return (
            <div class={c.css} role="columnheader" aria-sort={on ? (sort!.down ? 'descending' : 'ascending') : 'none'}>
              <button onClick={() => setSort(on && sort!.down ? null : { at: i, down: on })}>{c.name}{on && (sort!.down ? ' ↓' : ' ↑')}</button>
            </div>
          );
        })}</div>
        <div role="rowgroup">
          <div style={{ height: `${win.above}px` }} />
          {rows.slice(win.from, win.to).map((i, k) => {
            const j = r.jobs[i];
            return (
              <div class={`jobrow${j.former ? ' former' : ''}`} role="row" aria-rowindex={win.from + k + 2} data-row={win.from + k} key={i} onClick={() => open(i)}>
                {columns.map((c) => (
                  <div class={c.css} role="cell">{c.css === 'name' ? <button title={j.name} onClick={(e) => { e.stopPropagation(); open(i); }}>{c.text(j)}</button> : c.text(j)}</div>
                ))}
              </div>
            );
          })}
          <div style={{ height: `${win.below}px` }} />
        </div>
      </div>
      {win.paper && rows.length > win.to && <p class="muted">and {rows.length - win.to} more</p>}
      {!rows.length && <p class="muted note">No job matches.</p>}
    </>
  );
}
