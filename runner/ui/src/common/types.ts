// Made from the documents of the API and the report: go test ./runner/web -run TypeScript -update.
export interface Add {
  command?: (string)[];
}
export interface Alike {
  apart: string | null;
  cause: Cause;
  count: number;
  jobs: (string)[];
  kind: string | null;
  log: string | null;
  params: Record<string, string>;
  state: string;
  uni_id: string | null;
}
export interface Answer {
  now: string;
  said: (string)[];
  schema: string;
}
export interface Attempt {
  background: (BackgroundJob)[];
  cause: Cause | null;
  charged: boolean | null;
  closeness: string | null;
  ended: string | null;
  exit_code: number | null;
  expected_seconds: number | null;
  gpus: (AttemptGPU)[];
  host: string | null;
  job_id: string | null;
  log: Log | null;
  meanwhile: boolean;
  metrics: Record<string, unknown>;
  n: number;
  note: string | null;
  pid: number | null;
  progress: number | null;
  seconds: number | null;
  signal: string | null;
  snapshot: string | null;
  stalled: string | null;
  started: string | null;
  state: string;
  steps: number | null;
  stopping: string | null;
  submitted: string | null;
  uni_id: string | null;
}
export interface AttemptGPU {
  granted_bytes: number;
  index: number;
  peak_bytes: number | null;
  used_bytes: number | null;
  uuid: string;
}
export interface AttemptRow {
  background: (BackgroundJob)[];
  cause: Cause | null;
  charged: boolean | null;
  closeness: string | null;
  ended: string | null;
  exit_code: number | null;
  expected_seconds: number | null;
  file: string;
  gpus: (AttemptGPU)[];
  host: string | null;
  job: string;
  job_id: string | null;
  key: string;
  log: Log | null;
  meanwhile: boolean;
  metrics: Record<string, unknown>;
  n: number;
  note: string | null;
  pid: number | null;
  progress: number | null;
  seconds: number | null;
  signal: string | null;
  snapshot: string | null;
  stalled: string | null;
  started: string | null;
  state: string;
  steps: number | null;
  stopping: string | null;
  submitted: string | null;
  uni_id: string | null;
}
export interface BackgroundJob {
  command: string;
  pid: number | null;
}
export interface Batch {
  files: (File)[];
  host: string;
  id: string;
  params: Record<string, string>;
  state_dir: string;
  user: string;
  work_dir: string;
}
export interface BatchHours {
  attempts: number;
  file: string;
  gpu_seconds: number;
}
export interface BatchRow {
  counts: Record<string, number>;
  error: string | null;
  files: (File)[];
  host: string;
  id: string;
  line: string | null;
  outcome: Outcome | null;
  params: Record<string, string>;
  run: Run | null;
  state_dir: string;
  tally: Tally | null;
  user: string;
  work_dir: string;
}
export interface BatchUsage {
  advice: (string)[];
  gpu_seconds: number;
  now: string;
  parts: (GPUUse)[];
  schema: string;
  unknown: (string)[];
}
export interface Batches {
  batches: (BatchRow)[];
  now: string;
  schema: string;
}
export interface Because {
  attempt: Attempt | null;
  attempts: number;
  cause: Cause | null;
  chain: (string)[];
  commands: (string)[];
  file: string;
  gpu_memory_bytes: number | null;
  gpus: Range | null;
  key: string;
  line: number | null;
  metrics: Record<string, unknown>;
  name: string;
  needs: (string)[];
  params: Record<string, string>;
  plan: Plan | null;
  priority: number;
  queue: string | null;
  since: string | null;
  state: string;
  tags: (string)[];
  wait: Wait | null;
}
export interface Cause {
  code: string;
  text: string;
}
export interface Claim {
  gathering: boolean;
  job: string;
  memory_bytes: number;
  over: boolean;
  pid: number | null;
  since: string | null;
  uni_id: string | null;
  user: string | null;
}
export interface Copies {
  csv: string;
  latex: string;
  markdown: string;
  now: string;
  schema: string;
}
export interface Curve {
  metric: string;
  steps: (number)[];
  values: (number | null)[];
}
export interface Curves {
  curves: (Curve)[];
  now: string;
  schema: string;
}
export interface DocBest {
  by: number | null;
  complete: number;
  metric: string;
  of: number;
}
export interface DocCell {
  best: boolean;
  ci95: number | null;
  mean: number | null;
  metric: string;
  missing: (Gap)[];
  n: number;
  of: number;
  pivot: string | null;
  sd: number | null;
  sem: number | null;
  text: string;
  values: (Sample)[];
  versus: boolean;
}
export interface DocMetric {
  goal: string | null;
  name: string;
  percent: boolean;
}
export interface DocRow {
  best: DocBest | null;
  cells: (DocCell)[];
  params: Record<string, string>;
}
export interface Document {
  by: (string)[];
  caption: string;
  columns: (string)[];
  files: (string)[];
  headline: string | null;
  metrics: (DocMetric)[];
  notes: (string)[];
  now: string;
  over: (string)[];
  pivot: string | null;
  rows: (DocRow)[];
  schema: string;
  versus: string | null;
  warnings: (string)[];
}
export interface Done {
  file?: string;
  jobs?: (string)[];
  without_outputs?: boolean;
}
export interface File {
  dialect: string;
  path: string;
}
export interface Forget {
  file?: string;
  jobs?: (string)[];
}
export interface GPU {
  claims: (Claim)[];
  code: string | null;
  fits: boolean | null;
  index: number;
  jobs: (string)[];
  memory_free_bytes: number | null;
  memory_total_bytes: number | null;
  memory_used_bytes: number | null;
  mig: boolean;
  name: string;
  pci: string;
  processes: (Process)[];
  quarantines: (Quarantine)[];
  row_remap_pending: boolean | null;
  stalled: (string)[];
  text: string | null;
  utilization_percent: number | null;
  uuid: string;
}
export interface GPURequest {
  gpus: number;
  jobs: number;
  memory_bytes: number;
  share: boolean;
  uuids: (string)[];
}
export interface GPUUse {
  code: string;
  gpu_seconds: number;
  kind: string;
  user: string;
}
export interface GPUWait {
  code: string;
  from: string;
  to: string;
  user: string | null;
}
export interface GPUs {
  gpus: (GPU)[];
  host_rules: HostRules | null;
  now: string;
  schema: string;
  waiting: (Waiter)[];
}
export interface Gap {
  counted: boolean;
  unit: string;
  why: string;
}
export interface Git {
  commit: string;
  dirty: boolean;
}
export interface Hello {
  address: string;
  control: string | null;
  now: string;
  read: string;
  schema: string;
  session: string;
}
export interface History {
  attempts: (AttemptRow)[];
  batch: Batch;
  now: string;
  runs: (RunRow)[];
  schema: string;
}
export interface HostRules {
  courtesy_seconds: number;
  devices: (string)[];
  file: string;
  gather_seconds: number;
  held_gpus: number;
  hours: (string)[];
  max_gpus: number | null;
  max_gpus_by: string | null;
  max_gpus_per_job: number | null;
  max_timeout_seconds: number | null;
  others: string;
  patience_seconds: number;
  priority: number;
  prompt: string | null;
  reserve: number;
  schedule: string;
}
export interface Input {
  mtime: string;
  path: string;
  sha256?: string;
  size_bytes: number;
}
export interface JobDetail {
  attempts: (AttemptRow)[];
  batch: Batch;
  job: Because;
  now: string;
  schema: string;
}
export interface JobRow {
  attempts: number;
  cause: Cause | null;
  ended: string | null;
  expected_seconds: number | null;
  file: number;
  gpus: (number)[];
  id: string;
  index: number;
  kind: string | null;
  line: number | null;
  metrics: Record<string, unknown>;
  name: string;
  needs: number;
  params: Record<string, string>;
  priority: number;
  progress: number | null;
  queue: string | null;
  since: string | null;
  stalled: string | null;
  started: string | null;
  state: string;
  steps: number | null;
  tags: (string)[];
  uni_id: string | null;
  used_bytes: number | null;
  wait: Reason | null;
}
export interface Jobs {
  jobs: (JobRow)[];
  now: string;
  offset: number;
  schema: string;
  total: number;
  version: string;
}
export interface Log {
  from: number | null;
  path: string;
  to: number | null;
}
export interface Loss {
  code: string;
  gpu_seconds: number;
  user: string | null;
}
export interface Matches {
  at: (number)[];
  count: number;
  now: string;
  schema: string;
}
export interface Outcome {
  code: string;
  failed: number;
  text: string;
}
export interface Past {
  from: string;
  gpus: (PastGPU)[];
  now: string;
  schema: string;
  step_seconds: number;
}
export interface PastGPU {
  index: number;
  memory_total_bytes: number | null;
  memory_used_bytes: (number | null)[];
  name: string;
  utilization_percent: (number | null)[];
  uuid: string;
}
export interface Pause {
  file?: string;
  jobs?: (string)[];
}
export interface Plan {
  code: string;
  details: (string)[];
  expected_from: number | null;
  expected_seconds: number | null;
  gpu_memory_learned_from: number | null;
  run: boolean;
  simulated: Simulated | null;
  submission: Submission | null;
}
export interface Problem {
  code: string;
  column: number | null;
  file: string | null;
  hint: string | null;
  line: number | null;
  text: string;
}
export interface Problems {
  files: (File)[];
  now: string;
  problems: (Problem)[];
  schema: string;
  warnings: (Problem)[];
}
export interface Process {
  command: string | null;
  idle_seconds: number | null;
  memory_bytes: number | null;
  pid: number;
  user: string | null;
}
export interface Quarantine {
  evidence: (string)[];
  since: string;
  text: string;
  until: string;
  user: string | null;
}
export interface Range {
  max: number;
  min: number;
}
export interface RawDocument {
  files: (string)[];
  jobs: (RawJob)[];
  metrics: (DocMetric)[];
  now: string;
  schema: string;
}
export interface RawJob {
  job: string;
  metrics: Record<string, number | null>;
  params: Record<string, string>;
  state: string;
}
export interface Readings {
  gpus: (ReadingsOfGPU)[];
  step_seconds: number;
  time: (string)[];
}
export interface ReadingsOfGPU {
  index: number;
  jobs: (number)[];
  memory_ours_bytes: (number | null)[];
  memory_total_bytes: number | null;
  memory_used_bytes: (number | null)[];
  name: string | null;
  others: (boolean)[];
  utilization_percent: (number | null)[];
  uuid: string;
  waits: (GPUWait)[];
}
export interface Reason {
  code: string;
  text: string;
}
export interface Reload {
}
export interface Report {
  batch: Batch;
  config: Record<string, string>;
  copies: unknown;
  counts: Record<string, number>;
  curves: (ReportCurve)[];
  failures: (ReportFailure)[];
  jobs: (ReportJob)[];
  line: string;
  now: string;
  outcome: Outcome;
  readings: Readings | null;
  results: unknown;
  run: Run | null;
  runs: (RunRow)[];
  schema: string;
  tally: Tally;
  usage: BatchUsage | null;
  warnings: (Problem)[];
}
export interface ReportCurve {
  job: string;
  metric: string;
  pruned: boolean;
  steps: (number)[];
  uni_id: string;
  values: (number | null)[];
}
export interface ReportFailure {
  apart: string | null;
  cause: Cause;
  count: number;
  jobs: (string)[];
  kind: string | null;
  lines: (string)[];
  log: string | null;
  params: Record<string, string>;
  state: string;
  uni_id: string | null;
}
export interface ReportJob {
  attempt: Attempt | null;
  attempts: (Attempt)[];
  cause: Cause | null;
  commands: (string)[];
  config: Record<string, string>;
  failure: number | null;
  file: string;
  former: boolean;
  gpu_memory_bytes: number | null;
  gpus: Range | null;
  inputs: (Input)[];
  key: string;
  line: number | null;
  metrics: Record<string, unknown>;
  name: string;
  needs: (string)[];
  params: Record<string, string>;
  plan: Plan | null;
  priority: number;
  queue: string | null;
  since: string | null;
  state: string;
  tags: (string)[];
  wait: Wait | null;
}
export interface Resume {
  file?: string;
  jobs?: (string)[];
}
export interface Retry {
  file?: string;
  jobs?: (string)[];
}
export interface Run {
  alive: boolean;
  ended: string | null;
  exit_status: number | null;
  git: Git | null;
  gpu_seconds: number | null;
  id: string | null;
  params: Record<string, string>;
  phase: string | null;
  pid: number | null;
  settings: Record<string, string>;
  sim: string | null;
  snapshot: string | null;
  started: string | null;
}
export interface RunRow {
  alike: (Alike)[];
  attempts: number;
  counts: Record<string, number>;
  driver: string | null;
  ended: string | null;
  exit_status: number | null;
  git: Git | null;
  gpu_seconds: number;
  host: string;
  id: string | null;
  idle_gpu_seconds: number | null;
  last_seen: string;
  lost: (Loss)[];
  n: number;
  params: Record<string, string>;
  retries: number;
  sim: string | null;
  started: string;
  usable_gpus: number | null;
  why: string;
}
export interface Sample {
  unit: string;
  value: number;
}
export interface Session {
  control: string;
  host: string;
  now: string;
  prompt: string | null;
  roots: (string)[];
  schema: string;
  user: string;
  version: string;
}
export interface Set {
  file?: string;
  jobs?: (string)[];
  set?: Record<string, string>;
}
export interface Simulated {
  end_seconds: number;
  gpus: (number)[];
  known_by: string;
  start_seconds: number;
}
export interface Start {
  files?: (string)[];
  options?: Record<string, (string)[]>;
  yes?: boolean;
}
export interface Stop {
  drain?: boolean;
  file?: string;
  gpu?: number | null;
  jobs?: (string)[];
}
export interface Submission {
  args: (string)[];
  begins: string | null;
  limit_seconds: number | null;
  refused: string | null;
}
export interface Summary {
  alike: (Alike)[];
  batch: Batch;
  counts: Record<string, number>;
  eta_seconds: number | null;
  jobs_total: number;
  line: string;
  now: string;
  outcome: Outcome;
  run: Run | null;
  schema: string;
  tally: Tally;
  version: string;
  warnings: (Problem)[];
}
export interface Tally {
  did_not_run: number;
  done: number;
  failed: number;
  pruned: number;
  running: number;
  stalled: number;
  total: number;
  waiting: number;
}
export interface Timeline {
  attempts: (AttemptRow)[];
  now: string;
  readings: Readings | null;
  schema: string;
}
export interface Usage {
  batches: (BatchHours)[];
  now: string;
  schema: string;
  since: string;
  users: (UserHours)[];
}
export interface UserHours {
  gpu_seconds: number;
  seen_gpu_seconds: number;
  stated_gpu_seconds: number;
  uid: number;
  user: string;
  you: boolean;
}
export interface Wait {
  code: string;
  expected: string | null;
  gpus: (WaitGPU)[];
  jobs: (string)[];
  queue_reason: string | null;
  since: string | null;
  text: string;
  until: string | null;
  user: string | null;
}
export interface WaitGPU {
  code: string;
  index: number;
  text: string;
  uuid: string;
}
export interface Waiter {
  asks: (GPURequest)[];
  background: boolean;
  expected_start: string | null;
  holds_gpus: number;
  name: string | null;
  position: number;
  run: string | null;
  since: string;
  text: string | null;
  user: string;
  you: boolean;
}
