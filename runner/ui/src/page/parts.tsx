// Small parts that several pages use.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { clean, duration } from '../common/format';
import { look, states, stateWords } from '../common/states';
import { changed, now, useLive } from './live';
import type { Counts } from './types';

/** Text of a job, a log or another user. */
export const Text = ({ of }: { of: string | null | undefined }) => <>{clean(of ?? '')}</>;

/** How long something has lasted; drawn again every second until it has ended. */
export function Lasted({ from, to }: { from?: string | null; to?: string | null }) {
  useLive();
  if (to == null && from != null) return <>{duration((now() - Date.parse(from)) / 1000)}</>;
  return <>{from && to ? duration((Date.parse(to) - Date.parse(from)) / 1000) : ''}</>;
}

/** A bar of which a part is filled. */
export function Meter({ value, max, label, tone = '' }: { value: number | null; max: number | null; label: string; tone?: string }) {
  const share = value != null && max ? Math.min(value / max, 1) : null;
  return (
    <div class={`meter ${tone} ${share == null ? 'unknown' : ''}`} role="meter" aria-label={label} aria-valuemin={0}
      aria-valuemax={max ?? 0} aria-valuenow={value ?? undefined}>
      <i style={{ width: `${(share ?? 0) * 100}%` }} />
    </div>
  );
}

const order = ['ok', 'bad', 'warn', 'run', 'idle'];

/** Jobs by state as a bar: done, failed, held up, running, to do. */
export function Progress({ counts, small }: { counts: Counts; small?: boolean }) {
  const by: Record<string, number> = {};
  let total = 0;
  for (const [state, n] of Object.entries(counts)) {
    const tone = state === 'waiting' ? 'idle' : look(state).tone;
    by[tone] = (by[tone] ?? 0) + n;
    total += n;
  }
  const words = inWords(counts);
  return (
    <div class={`progress ${small ? 'small' : ''}`} role="img" aria-label={words} title={words}>
      {order.map((tone) => by[tone] ? <i key={tone} class={tone} style={{ flexGrow: by[tone] }} /> : null)}
      {total === 0 && <i class="idle" style={{ flexGrow: 1 }} />}
    </div>
  );
}

/** "12 succeeded, 1 failed, 4 running, 7 pending" */
export function inWords(counts: Counts): string {
  const parts = Object.keys(states).filter((s) => counts[s as keyof Counts])
    .map((s) => `${counts[s as keyof Counts]!.toLocaleString('en-US')} ${stateWords(s)}`);
  return parts.join(', ') || 'no jobs';
}

/** What is done, failed, running and to do, out of counts. */
export function totals(c: Counts) {
  const n = (...s: (keyof Counts)[]) => s.reduce((sum, k) => sum + (c[k] ?? 0), 0);
  const done = n('succeeded', 'up_to_date', 'not_needed');
  const bad = n('failed', 'timeout', 'oom', 'stalled', 'lost');
  const off = n('blocked', 'cancelled', 'interrupted');
  const left = n('pending', 'waiting', 'queued');
  return { done, bad, off, left, running: n('running'), total: done + bad + off + left + n('running') };
}

/** A dialog that keeps the focus, and ends with Esc. */
export function Dialog({ title, children, onClose, wide }: { title: string; children: ComponentChildren; onClose: () => void; wide?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => { ref.current!.showModal(); }, []);
  return (
    <dialog ref={ref} class={wide ? 'wide' : ''} aria-labelledby="dialog-title" onClose={onClose}
      onClick={(e) => e.target === ref.current && ref.current!.close()}>
      <div class="inside">
        <h2 id="dialog-title">{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

// What has just happened, for the eye (bottom of the page) and for screen readers.
interface Note { id: number; text: string; bad: boolean; more: string[] }
let notes: Note[] = [], next = 0, spoken = '';

export function tell(text: string, bad = false, more: string[] = []) {
  const note = { id: next++, text, bad, more };
  notes = [...notes.slice(-3), note];
  say(text);
  setTimeout(() => dismiss(note.id), bad ? 20_000 : 6_000);
  changed();
}

function dismiss(id: number) { notes = notes.filter((n) => n.id !== id); changed(); }

/** Has a screen reader say it, without showing it. */
export function say(text: string) { spoken = text; changed(); }

export function Notes() {
  useLive();
  return (
    <>
      <div class="hidden-text" role="status" aria-live="polite">{spoken}</div>
      <section class="notes" aria-label="Messages">
        {notes.map((n) => (
          <div key={n.id} class={`note ${n.bad ? 'bad' : 'ok'}`}>
            <div><p><Text of={n.text} /></p>{n.more.map((m) => <p class="muted"><Text of={m} /></p>)}</div>
            <button class="plain" aria-label="Dismiss" onClick={() => dismiss(n.id)}>×</button>
          </div>
        ))}
      </section>
    </>
  );
}

/** True once something has been asked for so long that people wonder. */
function useSlow(): boolean {
  const [slow, set] = useState(false);
  useEffect(() => { const t = setTimeout(() => set(true), 300); return () => clearTimeout(t); }, []);
  return slow;
}

export function Loading({ what }: { what: string }) {
  return useSlow() ? <p class="empty" role="status">Loading {what} …</p> : <p class="empty" />;
}

export const Empty = ({ children }: { children: ComponentChildren }) => <p class="empty">{children}</p>;
