// The documents of the API, as in docs/json.md: the fields that the page shows.

import type { Outcome } from '../common/states';

export type State = 'pending' | 'waiting' | 'queued' | 'running' | 'succeeded' | 'failed' | 'timeout' | 'oom' | 'stalled' |
  'cancelled' | 'interrupted' | 'lost' | 'blocked' | 'up_to_date' | 'not_needed';

export type Counts = Partial<Record<State, number>>;
export interface Cause { code: string; text: string }

export interface Batch {
  id: string; files: { path: string; dialect: string }[];
  work_dir: string; state_dir: string; host: string; user: string; params: Record<string, string> | null;
}

export interface Run {
  alive: boolean; pid: number | null; started: string | null; ended: string | null; exit_status: number | null;
  phase: 'running' | 'waiting' | 'paused' | 'draining' | 'stopping' | 'watching' | null;
  settings: Record<string, string> | null; params: Record<string, string> | null; sim: string | null;
  git: { commit: string; dirty: boolean } | null;
}

export interface BatchRow extends Batch { run: Run | null; counts: Counts | null; outcome: Outcome | null; error: string | null }

export interface Problem {
  code: string; file: string | null; line: number | null; column: number | null; text: string; hint: string | null;
}

export interface Alike { cause: Cause; count: number; jobs: string[]; log: string | null }

/** A job as the list of a batch has it. */
export interface JobRow {
  id: string; index: number; file: number; line: number | null; name: string; params: Record<string, string> | null;
  tags: string[]; queue: string | null; priority: number; needs: number; state: State; since: string | null;
  cause: Cause | null; wait: { code: string; text: string } | null; attempts: number; uni_id: string | null;
  gpus: number[]; started: string | null; ended: string | null; metrics: Record<string, unknown> | null;
}

export interface Summary {
  now: string; version: string; batch: Batch; run: Run | null; counts: Counts; outcome: Outcome; eta_seconds: number | null;
  jobs: number; running: JobRow[]; alike: Alike[]; warnings: Problem[];
}

export interface Jobs { now: string; version: string; total: number; offset: number; jobs: JobRow[] }

export interface Hello { address: string; session: string; read: string; control: string | null }
export interface Session {
  now: string; user: string; host: string; version: string; control: 'none' | 'control' | 'run'; roots: string[];
  prompt: string | null;
}

/** The last hour of each GPU, in equal steps; null where there was no reading. */
export interface Past {
  from: string; step_seconds: number;
  gpus: { index: number; uuid: string; name: string; memory_total_bytes: number | null;
    utilization_percent: (number | null)[]; memory_used_bytes: (number | null)[] }[];
}

export interface Span {
  job: string; name: string; uni_id: string; n: number; state: State; started: string; ended: string | null;
  host: string | null; gpus: number[]; cause: string | null;
}

export interface RunRow {
  n: number; params: Record<string, string> | null;
  started: string; ended: string | null; last_seen: string; exit_status: number | null; why: string; host: string;
  git: { commit: string; dirty: boolean } | null; sim: string | null; counts: Counts; attempts: number;
  retries: number; gpu_seconds: number; alike: Alike[];
  lost: { code: string; user: string | null; gpu_seconds: number }[];
}

export interface WaitGPU { index: number; uuid: string; code: string; text: string }

export interface Wait {
  code: string; text: string; since: string | null; until: string | null; jobs: string[]; user: string | null;
  gpus: WaitGPU[];
}

export interface AttemptGPU {
  index: number; uuid: string; granted_bytes: number; used_bytes: number | null; peak_bytes: number | null;
}

export interface Attempt {
  uni_id: string | null; n: number; state: State; started: string | null; ended: string | null; seconds: number | null;
  host: string | null; pid: number | null; gpus: AttemptGPU[]; closeness: string | null; exit_code: number | null;
  signal: string | null; cause: Cause | null; charged: boolean | null; meanwhile: boolean;
  log: { path: string; from: number | null; to: number | null } | null;
  background: { pid: number | null; command: string }[]; metrics: Record<string, unknown> | null;
}

export interface Job {
  file: string; line: number | null; name: string; key: string; params: Record<string, string> | null; tags: string[];
  queue: string | null; priority: number; needs: string[]; commands: string[];
  gpus: { min: number; max: number } | null; gpu_memory_bytes: number | null; state: State; since: string | null;
  cause: Cause | null; wait: Wait | null; attempts: number; attempt: Attempt | null;
  metrics: Record<string, unknown> | null;
}

/** A job with the reasons for its state, from what can be seen back to the cause. */
export interface Because extends Job {
  plan: { run: boolean; code: string; details: string[]; expected_seconds: number | null } | null;
  chain: string[];
}

export interface AttemptRow extends Attempt { file: string; job: string; key: string }

export interface Process {
  pid: number; user: string | null; command: string | null; memory_bytes: number | null; idle_seconds: number | null;
}

export interface Claim {
  user: string | null; job: string; pid: number | null; memory_bytes: number; since: string | null; over: boolean;
  gathering: boolean;
}

export interface GPU {
  index: number; uuid: string; name: string; pci: string; mig: boolean; memory_total_bytes: number | null;
  memory_used_bytes: number | null; memory_free_bytes: number | null; utilization_percent: number | null;
  fits: boolean | null; code: string | null; text: string | null; jobs: string[]; processes: Process[] | null;
  claims: Claim[];
  quarantines: { user: string | null; since: string; until: string; text: string; evidence: string[] }[];
  row_remap_pending: boolean | null;
}

export interface Waiter {
  position: number; user: string; you: boolean; run: string | null; since: string; holds_gpus: number;
  background: boolean;
  asks: { jobs: number; gpus: number; memory_bytes: number; share: boolean; uuids: string[] }[];
  expected_start: string | null; text: string | null;
}

export interface HostRules {
  file: string; devices: string[] | null; reserve: number; max_gpus: number | null; max_gpus_by: string | null;
  held_gpus: number; max_gpus_per_job: number | null; max_timeout_seconds: number | null; others: string;
  hours: string[]; prompt: string | null; schedule: string; priority: number; courtesy_seconds: number;
  patience_seconds: number; gather_seconds: number;
}

export interface GPUs { now: string; gpus: GPU[]; waiting: Waiter[]; host_rules: HostRules | null }

export interface Results {
  files: string[]; by: string[]; over: string[]; pivot: string | null; versus: string | null; caption: string;
  notes: string[]; warnings: string[];
  metrics: { name: string; goal: 'max' | 'min' | null; percent: boolean }[];
  rows: ResultRow[];
}

export interface ResultRow { params: Record<string, string>; cells: Cell[]; best: { of: number; complete: number; by: number | null } | null }

export interface Cell {
  metric: string; pivot: string | null; versus: boolean; mean: number | null; sd: number | null; sem: number | null;
  ci95: number | null; n: number; of: number; best: boolean; values: { unit: string; value: number }[];
  missing: { unit: string; why: string; counted: boolean }[];
}
