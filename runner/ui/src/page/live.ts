// One bell for all that is shown: who changes what is shown rings it, and the page draws
// once for all rings of a frame. Times that run are drawn every second.
import { useEffect, useState } from 'preact/hooks';

const listeners = new Set<() => void>();
let due = false;

export function changed() {
  if (due) return;
  due = true;
  const draw = () => { due = false; for (const l of [...listeners]) l(); };
  // A hidden page gets no frames, but its title is still read.
  document.visibilityState === 'visible' ? requestAnimationFrame(draw) : setTimeout(draw, 1000);
}

/** Draws the component again whenever something has changed. */
export function useLive() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const l = () => redraw((n) => n + 1);
    listeners.add(l);
    return () => void listeners.delete(l);
  }, []);
}

// How far the server's clock is ahead of this one: times are shown by the server's.
let ahead = 0;
export const setNow = (iso: string) => { ahead = Date.parse(iso) - Date.now(); };
export const now = () => Date.now() + ahead;

setInterval(() => { if (document.visibilityState === 'visible') changed(); }, 1000);
