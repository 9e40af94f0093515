// How the GPU time of a batch was used: parts that add up to the total, gaps in the data, and advice.
import { clean } from './format';
import type { BatchUsage } from './types';

const hours = (s: number) => (s / 3600).toFixed(2);

export function Usage({ of: u }: { of: BatchUsage }) {
  const rows = u.parts.map((p) => [`${p.kind}${p.code || p.user ? ': ' : ''}${p.code}`.replaceAll('_', ' ').replace(/\bgpus\b/, 'GPUs') + clean(p.user), p.gpu_seconds] as const);
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label="GPU time"><table class="data">
        <thead><tr><th scope="col">GPU time</th><th scope="col" class="num">GPU hours</th><th scope="col" class="num">share</th></tr></thead>
        <tbody>{[...rows, ['all', u.gpu_seconds] as const].map(([text, s]) => (
          <tr key={text}><td>{text}</td><td class="num">{hours(s)}</td><td class="num">{((100 * s) / (u.gpu_seconds || 1)).toFixed(1)}%</td></tr>
        ))}</tbody>
      </table></div>
      {[...u.unknown, ...u.advice].map((line) => <p class="advice" key={line}>{line.split('`').map((part, i) => (i % 2 ? <code>{part}</code> : part))}</p>)}
    </>
  );
}
