// A list of any length that keeps only visible rows in the document.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { RefObject } from 'preact';

export interface Window { from: number; to: number; above: number; below: number }

/** The number of lines that the longest name needs in `room` pixels, at most four. Names may differ only at their ends. */
export const linesFor = (longest: number, room: number) => (longest * 6.8 > room ? Math.min(Math.ceil((longest * 8) / room), 4) : 1);

/** The visible rows of a list, with some more on both sides. */
export function windowOf(top: number, height: number, rows: number, rowHeight: number, more = 8): Window {
  const from = Math.max(0, Math.min(Math.floor(top / rowHeight) - more, rows));
  const to = Math.max(from, Math.min(Math.ceil((top + height) / rowHeight) + more, rows));
  return { from, to, above: from * rowHeight, below: (rows - to) * rowHeight };
}

const onPaper = 500; // most rows to print

/**
 * useWindow follows the scroll position of `scroller` and returns the rows to render. It
 * re-renders only when other rows are needed. In print, it returns the first rows.
 */
export function useWindow(scroller: RefObject<HTMLElement | null>, rows: number, rowHeight: number, head = 0) {
  const more = 8;
  const look = (): Window => {
    const e = scroller.current;
    return windowOf(e ? e.scrollTop - head : 0, e ? e.clientHeight : 800, rows, rowHeight, more);
  };
  const [, redraw] = useState(0), [paper, setPaper] = useState(false);
  const shown = useRef<Window | null>(null);
  const win = (shown.current = paper ? { from: 0, to: Math.min(rows, onPaper), above: 0, below: 0 } : look());
  useLayoutEffect(() => redraw((n) => n + 1), []); // now that the height is known
  useEffect(() => {
    const e = scroller.current!;
    const moved = () => {
      const now = windowOf(e.scrollTop - head, e.clientHeight, rows, rowHeight, 2);
      const is = shown.current!;
      if (now.from < is.from || now.to > is.to) redraw((n) => n + 1);
    };
    e.addEventListener('scroll', moved, { passive: true });
    const sized = new ResizeObserver(moved);
    sized.observe(e);
    return () => { e.removeEventListener('scroll', moved); sized.disconnect(); };
  }, [rows, rowHeight, head]);
  useEffect(() => {
    const on = () => setPaper(true), off = () => setPaper(false);
    addEventListener('beforeprint', on);
    addEventListener('afterprint', off);
    return () => { removeEventListener('beforeprint', on); removeEventListener('afterprint', off); };
  }, []);
  /** Scrolls a row into view. */
  const reveal = (row: number) => {
    const e = scroller.current;
    if (!e) return;
    const top = row * rowHeight, room = e.clientHeight - head;
    if (top < e.scrollTop) e.scrollTop = top;
    else if (top + rowHeight > e.scrollTop + room) e.scrollTop = top + rowHeight - room;
  };
  return { ...win, paper, reveal };
}
