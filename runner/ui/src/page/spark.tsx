// The last hour of a GPU: utilization as an area, memory as a line.
import { useMemo } from 'preact/hooks';
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

// One path for each: a gap in the readings is a gap in the picture.
function draw(hour: Past['gpus'][number]) {
  const n = Math.max(hour.utilization_percent.length, 2);
  const x = (i: number) => ((i / (n - 1)) * w).toFixed(1);
  let area = '', line = '', last = -1;
  hour.utilization_percent.forEach((v, i) => {
    if (v == null) { if (last >= 0) area += `L${x(last)} ${h}Z`; last = -1; return; }
    if (last < 0) area += `M${x(i)} ${h}`;
    area += `L${x(i)} ${(h - (v / 100) * (h - 1)).toFixed(1)}`;
    last = i;
  });
  if (last >= 0) area += `L${x(last)} ${h}Z`;
  let pen = false;
  hour.memory_used_bytes.forEach((v, i) => {
    if (v == null || !hour.memory_total_bytes) { pen = false; return; }
    line += `${pen ? 'L' : 'M'}${x(i)} ${(h - 1 - (v / hour.memory_total_bytes) * (h - 2)).toFixed(1)}`;
    pen = true;
  });
  return { area, line };
}
