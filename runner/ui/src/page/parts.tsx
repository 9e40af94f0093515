// Small components that several pages share.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { clean, duration } from '../common/format';
import { changed, now, useLive } from './live';

/** Untrusted text: from a job, a log or another user. */
export const Text = ({ of }: { of: string | null | undefined }) => <>{clean(of ?? '')}</>;

/** A duration, redrawn each second until it ends. */
export function Lasted({ from, to }: { from?: string | null; to?: string | null }) {
  useLive();
  if (to == null && from != null) return <>{duration((now() - Date.parse(from)) / 1000)}</>;
  return <>{from && to ? duration((Date.parse(to) - Date.parse(from)) / 1000) : ''}</>;
}

/** A bar filled to `value` of `max`. */
export function Meter({ value, max, label, tone = '' }: { value: number | null; max: number | null; label: string; tone?: string }) {
  const share = value != null && max ? Math.min(value / max, 1) : null;
  return (
    <div class={`meter ${tone} ${share == null ? 'unknown' : ''}`} {...(share == null ? { role: 'img', 'aria-label': `${label}: unknown` } : { role: 'meter', 'aria-label': label, 'aria-valuemin': 0, 'aria-valuemax': max!, 'aria-valuenow': value! })}>
      <i style={{ width: `${(share ?? 0) * 100}%` }} />
    </div>
  );
}

/** A modal dialog. Esc closes it. */
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

// Messages about what just happened: at the bottom of the page, and for screen readers.
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

/** Announces text to screen readers only. */
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

/** Shows what is loading, after a moment. */
export function Loading({ what }: { what: string }) {
  const [slow, set] = useState(false);
  useEffect(() => { const t = setTimeout(() => set(true), 300); return () => clearTimeout(t); }, []);
  return slow ? <p class="empty" role="status">Loading {what} …</p> : <p class="empty" />;
}

export const Empty = ({ children }: { children: ComponentChildren }) => <p class="empty">{children}</p>;

export const narrow = matchMedia('(max-width: 720px)'), medium = matchMedia('(max-width: 1000px)');

export function useMedia(q: MediaQueryList) {
  const [is, set] = useState(q.matches);
  useEffect(() => {
    const l = () => set(q.matches);
    q.addEventListener('change', l);
    return () => q.removeEventListener('change', l);
  }, []);
  return is;
}
