// Package disk keeps a batch's state on disk. The names of files in the state folder (the lock, the
// ledger, the logs and the attempt folders) are private to this package.
//
// # The ledger
//
// .gpurun/<job file>/ledger.jsonl is append-only: one JSON object per line, at most 64 KiB each,
// appended with a single write. A torn last line is dropped with a warning. A broken line elsewhere
// is reported and skipped. No line is ever deleted. Ends reach the disk within a second, and ends
// close together share one fsync. An attempt's own record is removed only after that, so after any
// crash, the ledger or the attempt's record contains the end.
//
// Before each append, and about once a second, the run checks that the ledger's path still leads to
// the file that it opened, and that the file has the expected size (state/disk/taken.go). If someone
// removed, replaced or truncated the ledger, the run restores the lines that it wrote, starts nothing
// more, and exits with 4. If the file is gone, the run restores every line from the file that it
// still has open. If someone only appended to the ledger, or wrote the same lines to a new file, the
// run continues.
//
// An attempt's status record also contains its start (job, key, needs, GPUs, log, host). If the
// ledger contains neither the start nor the end of an attempt that began, the run restores the
// start from the record and adopts the attempt like any other (engine.Kind.Trace). If the whole
// folder was removed, a keeper whose socket is gone prevents the run from starting.
//
// A run locks two files for each job file: lock in its state folder, and the job file itself. The
// second lock works across state folders, hard links and bind mounts, and survives the removal of
// .gpurun. It is a flock, which also works on a read-only file. The run ignores a lock held by
// another user, because anyone who can read a file can lock it, and users may share a job file. The
// lock that "flock FILE gpurun FILE" holds counts as this run's own. For users who cannot open lock,
// /proc/locks shows whether it is held.
//
// gpurun opens its own files with host.OpenOwn: never through a link, and only regular files.
// .gpurun, the batch folder, logs and attempts must belong to this user or to root; for root, they
// may also belong to the job file's owner, whose commands root runs anyway. Nobody else may have
// write access. A group with the owner's name or number counts as the owner, so umask 002 with
// private groups works. A run sets the modes of the batch folder and its locks
// (state/disk/access.go, reliability.md). On a file system without owners or modes, a folder may
// look writable by everyone when it is not: creating a file in it shows whether it is
// (state/disk/trust.go). logs must not be a link. .gpurun and the batch folder may be links that
// this user owns.
//
// gpurun mcp acts for a client that may see only some folders. Each of its calls is a separate
// process, gpurun __confined DIR… -- VERB …. In that process, host.Confine refuses files outside
// these folders if their names come from a job file or a ledger. It checks the path of the open
// descriptor, so replacing a link in between has no effect. Some paths in job files, such as outputs,
// are only checked for existence; outside (runner/batches/confined.go) refuses those that leave the
// folders. New code that opens a file by such a name must use host.OpenReachable, host.OpenRegular or
// source.ReadRegular; runner/cli/mcpattack_test.go tries to escape.
//
// For each key of a ledger, memory holds only the offsets of its last end and of that attempt's
// start, and a record is read from there on demand (state/disk/past.go). ledger.index stores these
// offsets and the time of each valid success. With it, a batch of 100,000 jobs with nothing to do
// does not decode 300,000 lines: a job needs no line if its outputs exist and are no newer than its
// success. The index contains checksums of itself and of the lines it covers. If it is broken
// or belongs to another ledger, it is ignored. A run that added many lines rewrites it at the end.
//
// Consecutive facts of one step are appended in one write, and the ledger contains all of them before
// anything that depends on them happens. An end that cannot be written stays in the attempt's own
// record, and the run keeps retrying the write until the run ends.
//
// A start names its job's seed group (Job.SeedGroup: jobs that differ only in seeds). For at most
// 4,096 groups, the history keeps the time and memory of the last 20 successes
// (state/seedgroup.go), which runner/sched/usagestats.go uses. The index includes them, so no line
// is read twice.
//
// A run fact begins a run in each ledger, and an over fact ends it, unless the run was killed.
// Starts and over facts carry the GPU time lost since the previous start (runner/sched/waste.go).
// state.RunHistory collects runs and attempts for gpurun history. batches.jsonl, the list of a
// user's batches for gpurun ls, is outside the state folders (state/disk/used.go); nothing depends
// on it.
//
// History is looked up by key, a hash of what a job does; names are only labels. jobfile.md lists
// what the key includes. The recipe for the key is versioned, so that changing it does not rerun old
// work.
package disk
