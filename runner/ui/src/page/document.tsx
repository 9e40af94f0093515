// Documents that reload when jobs of the batch change.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { get } from './api';
import { Empty, Loading } from './parts';
import type { BatchStore } from './store';

interface Answer<T> { doc: T | null; error: Error | null }

/** Loads a document below the batch's path and reloads it at most every `every` ms as jobs change. Loads nothing without a path. */
export function useDocument<T>(batch: BatchStore, path: string, every = 3000): Answer<T> {
  const [answer, set] = useState<Answer<T>>({ doc: null, error: null });
  useEffect(() => {
    if (!path) return;
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

/** Renders a document as soon as it is loaded. */
export function Asked<T>({ batch, path, what, show }: { batch: BatchStore; path: string; what: string; show: (doc: T) => ComponentChildren }) {
  const { doc, error } = useDocument<T>(batch, path, 5000);
  return doc ? <>{show(doc)}</> : error ? <Empty>{error.message}</Empty> : <Loading what={what} />;
}
