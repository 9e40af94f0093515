// Package sched is the scheduler. Step takes an event and the time, and returns the
// actions to perform. The package reads no clock, file, device or process; its only
// randomness comes from a seed passed in; and no decision depends on the iteration
// order of a map. Facts record what happened to jobs, and only apply(Fact) makes the
// changes that facts describe, live or replayed.
//
// Terms: a job is ready when its needs and its queue let it run. It is granted GPUs,
// prepared (the edge claims them and creates what a start needs), started, and
// ended. A job backs off while it waits to retry. The head is the first ready job
// that found no GPU. Smaller jobs may pass it until its patience is over; then GPUs
// are kept for it.
//
// # Readings
//
// runner/sched decides what to read and when (readings.go, sharing.go, handover.go):
//
//   - All GPUs, with their processes: every poll while a ready job waits; 15 s and 60 s
//     after each start; and every 10 minutes, to find jobs on GPUs that they were not
//     given. Simulated GPUs have no such jobs.
//   - The free memory of GPUs with jobs of this run: half a second after a start, then once
//     a second. The driver answers in microseconds.
//   - Their processes: every 5 s, and at once if less memory is free than at any earlier
//     list. A list costs milliseconds and holds the driver's lock; this way a one-second
//     peak is seen without listing every second.
//   - The free memory of a GPU that a job has just left: repeatedly, until the next job is
//     on it.
//
// While a job that names stall runs, the core also has the loop sample, every twentieth of that
// time, how much CPU time and output its attempts have had (SampleProgress, ProgressSampled);
// runner/sched/stall adds up how long that, and what lists show of its GPUs, has stood still.
// No other run pays for it.
//
// Only a list shows whose memory it is: the pool learns nothing from a quick reading of a GPU
// in use. Before a job starts on a GPU that was last read over 0.1 s ago, that GPU is read
// again, and kept for it meanwhile. A wake tries jobs only if time may have let one start
// (fillAt); most wakes are for readings.
//
// # Time
//
// Durations and limits use CLOCK_BOOTTIME; wall-clock time is for people and the ledger. The
// core gets the time with each event. Tests of the core use no clock at all; tests of the loop
// use testing/synctest.
package sched
