// Where the GPU time of the batch went.
import { Usage } from '../common/usage';
import { useDocument } from './document';
import { Empty, Loading } from './parts';
import type { BatchStore } from './store';
import type { BatchUsage } from '../common/types';

export function UsageTab({ batch }: { batch: BatchStore }) {
  const { doc, error } = useDocument<BatchUsage>(batch, '/usage', 5000);
  if (error && !doc) return <Empty>{error.message}</Empty>;
  if (!doc) return <Loading what="the GPU time" />;
  if (!doc.parts.length) return <Empty>No run has used GPUs.</Empty>;
  return <section class="card" aria-label="Usage"><div class="body"><Usage of={doc} /></div></section>;
}
