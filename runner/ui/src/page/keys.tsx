// Keyboard shortcuts, and the list of them behind "?".
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Dialog } from './parts';

export interface Key { keys: string[]; does: string; run: (e: KeyboardEvent) => void }

const stack: { current: Key[] }[] = [];

/** Binds keys while the component is mounted. Later bindings override earlier ones. */
export function useKeys(keys: Key[]) {
  const ref = useRef(keys);
  ref.current = keys;
  useLayoutEffect(() => { // before the first frame, so that no key press is missed
    stack.push(ref);
    return () => void stack.splice(stack.indexOf(ref), 1);
  }, []);
}

// Elements that take letters as input.
const typing = (t: EventTarget | null) =>
  t instanceof HTMLTextAreaElement || t instanceof HTMLSelectElement ||
  t instanceof HTMLInputElement && !['checkbox', 'radio', 'button'].includes(t.type);

export function Keys() {
  const [help, show] = useState(false);
  useLayoutEffect(() => {
    const pressed = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || document.querySelector('dialog[open]')) return;
      if (typing(e.target) && !['Escape', 'ArrowDown', 'ArrowUp'].includes(e.key)) return;
      // Buttons and links handle Enter. A scrollable region, such as a log, handles the keys that scroll it.
      if (e.target instanceof HTMLElement && /^(Arrow|Page)/.test(e.key) && e.target.matches('[role="region"], select')) return;
      if (e.key === 'Enter' && e.target instanceof HTMLElement && e.target.matches('a, button, summary, input')) return;
      if (e.key === '?') { e.preventDefault(); show(true); return; }
      for (let i = stack.length - 1; i >= 0; i--) {
        const k = stack[i].current.find((k) => k.keys.includes(e.key));
        if (k) { e.preventDefault(); k.run(e); return; }
      }
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);
  useEffect(() => {
    const open = () => show(true);
    addEventListener('keys-help', open);
    return () => removeEventListener('keys-help', open);
  }, []);
  if (!help) return null;
  const seen = new Set<string>();
  const all = [...stack].reverse().flatMap((s) => s.current).filter((k) => !seen.has(k.does) && seen.add(k.does));
  return (
    <Dialog title="Keys" wide onClose={() => show(false)}>
      <dl class="keys">
        {[...all, { keys: ['?'], does: 'this list' }].map((k) => (
          <div key={k.does}><dt>{k.keys.map((x) => <kbd>{shown(x)}</kbd>)}</dt><dd>{k.does}</dd></div>
        ))}
      </dl>
      <form method="dialog" class="buttons"><button class="button">Close</button></form>
    </Dialog>
  );
}

const names: Record<string, string> = { ArrowDown: '↓', ArrowUp: '↑', ArrowLeft: '←', ArrowRight: '→', Escape: 'Esc', ' ': 'Space' };
const shown = (k: string) => names[k] ?? k;
