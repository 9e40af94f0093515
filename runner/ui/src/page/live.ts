// One signal for everything on the page: every change of data triggers it, and the page redraws
// once per frame. Running times redraw each second.
import { useEffect, useState } from 'preact/hooks';

const listeners = new Set<() => void>();
let due = false;

export function changed() {
  if (due) return;
  due = true;
  const draw = () => { due = false; for (const l of [...listeners]) l(); };
  // A hidden page gets no frames, but its title must stay current.
  document.visibilityState === 'visible' ? requestAnimationFrame(draw) : setTimeout(draw, 1000);
}

/** Redraws the component after every change. */
export function useLive() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const l = () => redraw((n) => n + 1);
    listeners.add(l);
    return () => void listeners.delete(l);
  }, []);
}

// How far the server's clock is ahead of this one. Times on the page use the server's clock.
let ahead = 0;
export const setNow = (iso: string) => { ahead = Date.parse(iso) - Date.now(); };
export const now = () => Date.now() + ahead;

setInterval(() => { if (document.visibilityState === 'visible') changed(); }, 1000);
