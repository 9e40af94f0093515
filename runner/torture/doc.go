// Package torture checks gpurun's promises under faults. It runs batches of short jobs as real
// processes on simulated GPUs. Runners and keepers are killed, stopped and continued at random
// moments and between any two system calls, and restarted until everything is done. The jobs keep
// their own journal, which is the reference for what happened.
//
// A lane is one job file and the runners started for it, one after another; several
// lanes share the same simulated GPUs. A round is a batch from its first start to the
// verdict. The package consists only of tests; `make torture` runs them for a given
// time.
package torture
