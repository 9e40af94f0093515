// Package sched is the scheduler. Step takes an event and the time, and returns the actions to
// perform. The package reads no clock, file, device or process; its only randomness comes from a
// seed passed in; and no decision depends on the iteration order of a map. Facts record what
// happened to jobs. Only apply(Fact) makes the changes that a fact describes, whether the fact is
// live or replayed.
//
// Terms: a job is ready when its needs and its queue let it run. It is granted GPUs, prepared (the
// edge, package runner, claims them and creates what a start needs), started, and ended. A job
// backs off while it waits to retry. The waiter is the first ready job that found no GPU. Smaller
// jobs may overtake it until its patience is over; then GPUs are reserved for it.
//
// # Readings
//
// runner/sched decides what to read and when (readings.go, sharing.go, handover.go):
//
//   - All GPUs, with their processes: at every poll while a ready job waits; 15 s and 60 s
//     after each start; and every 10 minutes, to find jobs on GPUs that they were not
//     given. Simulated GPUs have no such jobs.
//   - The free memory of GPUs with jobs of this run: half a second after a start, then once
//     a second. The driver answers in microseconds.
//   - The processes on those GPUs: every 5 s, and immediately if less memory is free than when
//     any earlier list was read. A list takes milliseconds and holds the driver's lock.
//     Listing after a drop catches a one-second peak without a list every second.
//   - The free memory of a GPU that a job has just left: repeatedly, until the next job is
//     on it.
//
// While a job with a stall or prune setting runs, the core also makes the loop sample its attempts
// (SampleProgress, ProgressSampled): CPU time and output 20 times per stall time, and the prune
// metric every second, or every 10 s on a cluster. runner/sched/stall tracks how long there has
// been no output, CPU time or GPU use. Runs without such jobs do not bear this cost.
//
// Only a process list shows which process uses memory, so the pool ignores a quick reading (without
// a list) of a GPU in use. A GPU that was last read over 0.1 s ago is reserved for its next job,
// and read again before that job starts. After a Wake, the core tries to start jobs only if the
// passage of time may have made that possible (fillAt); most Wakes are for readings.
//
// # Time
//
// Durations and limits use CLOCK_BOOTTIME; wall-clock time is for display and the ledger. The core
// gets the time with each event. Tests of the core use no clock at all; tests of the loop use
// testing/synctest.
package sched
