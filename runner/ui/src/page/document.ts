// Documents that are asked for again when jobs of the batch have changed.
import { useEffect, useState } from 'preact/hooks';
import { get } from './api';
import type { BatchStore } from './store';

interface Answer<T> { doc: T | null; error: Error | null }

/** The document below the batch's path, at most `every` ms old once jobs have changed. */
export function useDocument<T>(batch: BatchStore, path: string, every = 3000): Answer<T> {
  const [answer, set] = useState<Answer<T>>({ doc: null, error: null });
  useEffect(() => {
    const over = new AbortController();
    let timer = 0, seen = -1;
    const ask = async () => {
      seen = batch.revision;
      try {
        const doc = await get<T>(batch.path(path), over.signal);
        set({ doc, error: null });
      } catch (error) {
        if (over.signal.aborted) return;
        set((a) => ({ doc: a.doc, error: error as Error }));
      }
      timer = window.setTimeout(look, every);
    };
    const look = () => {
      if (batch.revision !== seen && document.visibilityState === 'visible') return void ask();
      timer = window.setTimeout(look, every);
    };
    void ask();
    return () => { over.abort(); clearTimeout(timer); };
  }, [batch, path]);
  return answer;
}
