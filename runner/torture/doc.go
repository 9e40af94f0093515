// Package torture holds gpurun to its promises under faults: real processes, a
// batch of short jobs on simulated GPUs, runners and keepers killed, stopped and
// continued at random instants and between any two system calls, and started
// again until everything is done. The jobs keep a journal of their own, and what
// is believed is the journal.
//
// A lane is one job file and the runners that are started for it, one after the
// other; several lanes use the same simulated GPUs at once. A round is a batch
// from its first start to the verdict. The tests of the package are all there
// is; `make torture` runs them for as long as it is told.
package torture
