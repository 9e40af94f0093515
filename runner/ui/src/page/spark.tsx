// The last hour of a GPU: utilization as an area, memory as a line.
import { useMemo } from 'preact/hooks';
import { path } from '../common/chart';
import { time } from '../common/format';
import type { Past } from '../common/types';

const w = 240, h = 40;

export function Spark({ past, hour, label }: { past: Past | null; hour?: Past['gpus'][number]; label: string }) {
  const drawn = useMemo(() => hour && draw(hour), [hour]);
  if (!past || !hour || !drawn) return <div class="spark" aria-hidden="true" />;
  const known = hour.utilization_percent.filter((v): v is number => v != null);
  const mean = known.length ? Math.round(known.reduce((a, b) => a + b, 0) / known.length) : null;
  const words = known.length ? `${label}, since ${time(past.from)}: ${mean} % utilization on average` : `${label}: no readings yet`;
  return (
    <svg class="spark" viewBox={`0 0 ${w} ${h}`} preserveAspectRatio="none" role="img" aria-label={words}>
      <title>{words} (area), memory (line)</title>
      <path class="util" d={drawn.area} />
      <path class="mem" d={drawn.line} />
    </svg>
  );
}

function draw({ utilization_percent: util, memory_used_bytes: used, memory_total_bytes: total }: Past['gpus'][number]) {
  const x = (i: number) => (i / Math.max(util.length - 1, 1)) * w;
  return { area: path(util, x, (v) => h - (v / 100) * (h - 1), () => h), line: total ? path(used, x, (v) => h - 1 - (v / total) * (h - 2)) : '' };
}
