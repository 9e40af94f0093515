// What the report's data looks like, as far as it is shown: Report in docs/json.md.

import type { Outcome } from '../common/states';

export type Cause = { code: string; text: string };
export type AttemptGPU = { index: number; uuid: string; granted_bytes: number; peak_bytes: number | null };
export type Attempt = {
  uni_id: string | null; n: number; state: string; submitted: string | null; started: string | null; ended: string | null; seconds: number | null;
  host: string | null; job_id: string | null; gpus: AttemptGPU[]; exit_code: number | null; signal: string | null; cause: Cause | null; charged: boolean | null;
  meanwhile: boolean; log: { path: string; from: number | null; to: number | null } | null;
};
export type Job = {
  file: string; line: number | null; name: string; key: string; former: boolean; params: Record<string, string>; tags: string[]; needs: string[];
  state: string; since: string | null; cause: Cause | null; wait: { code: string; text: string } | null; failure: number | null;
  commands: string[]; config: Record<string, string>; inputs: { path: string; size_bytes: number; mtime: string; sha256?: string }[];
  metrics: Record<string, unknown> | null; attempts: Attempt[];
};
export type Loss = { code: string; user: string | null; gpu_seconds: number };
export type Run = {
  n: number; params: Record<string, string> | null;
  started: string; ended: string | null; last_seen: string; exit_status: number | null; why: string; host: string;
  git: { commit: string; dirty: boolean } | null; sim: string | null; driver: string | null; usable_gpus: number | null;
  counts: Record<string, number>; attempts: number; retries: number; gpu_seconds: number; lost: Loss[]; idle_gpu_seconds: number | null;
};
export type Failure = { cause: Cause; count: number; jobs: string[]; log: string | null; state: string; lines: string[] };
export type GPUReadings = {
  index: number; uuid: string; name: string | null; memory_total_bytes: number | null; memory_used_bytes: (number | null)[];
  memory_ours_bytes: (number | null)[]; utilization_percent: (number | null)[]; jobs: number[]; others: boolean[];
  waits: { from: string; to: string; code: string; user: string | null }[];
};
export type Curve = { job: string; uni_id: string; metric: string; steps: number[]; values: (number | null)[] };
export type Cell = {
  metric: string; pivot: string | null; versus: boolean; mean: number | null; sd: number | null; n: number; of: number; best: boolean;
  values: { unit: string; value: number }[]; missing: { unit: string; why: string; counted: boolean }[];
};
export type Results = {
  by: string[]; over: string[]; caption: string; notes: string[]; warnings: string[];
  metrics: { name: string; goal: 'max' | 'min' | null; percent: boolean }[]; rows: { params: Record<string, string>; cells: Cell[] }[];
};
export type Report = {
  now: string;
  batch: { id: string; files: { path: string; dialect: string }[]; work_dir: string; state_dir: string; host: string; user: string; params: Record<string, string> | null };
  run: { alive: boolean; settings: Record<string, string> | null; params: Record<string, string> | null; sim: string | null } | null;
  counts: Record<string, number>; outcome: Outcome; runs: Run[]; jobs: Job[]; config: Record<string, string>; failures: Failure[];
  readings: { step_seconds: number; time: string[]; gpus: GPUReadings[] } | null;
  results: Results | null; curves: Curve[]; warnings: { code: string; text: string }[];
};
