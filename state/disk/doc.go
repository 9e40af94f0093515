// Package disk keeps a batch's state on disk. No other package knows its file names:
// the folder, lock, ledger, logs and attempt folders.
//
// # The ledger
//
// .gpurun/<job file>/ledger.jsonl is append-only: one JSON object per line, at most 64 KiB
// each, appended with a single write. A torn last line is dropped with a warning; a broken line
// elsewhere is reported and skipped. No line is ever deleted. Ends reach the disk within a
// second, with one fsync for all that came together. An attempt's own record is removed only
// after that, so whatever crashes and whenever, either the ledger or the attempt's record has
// the end.
//
// Before each append, and once a second, the ledger is compared with what was written to it:
// device and inode of its name, and its size (state/disk/taken.go). If somebody removed,
// replaced or truncated it, this run restores what it recorded (every line if the ledger is
// gone, from the file that is still open), starts nothing more, and exits with 4. If somebody
// only appended to it, or wrote the same lines to a new file, no harm is done and the run
// continues.
//
// An attempt's status record also contains its start (job, key, needs, GPUs, log, host). If the
// ledger has neither start nor end of an attempt that began, the start is restored from there
// and the attempt adopted like any other (engine.Kind.Trace). If the whole folder was removed,
// a keeper whose socket is gone keeps the run from starting.
//
// A run locks lock in the state folder of each job file, and the job file itself. Who may not
// open lock learns from /proc/locks whether it is held. Another state folder, a hard link, a
// bind mount or removing .gpurun does not get around that. The lock on the job file is a flock,
// which also works on a read-only file. If another user holds it, it is ignored: anyone who can
// read a file can lock it, and people may share a job file. The lock held by flock FILE gpurun
// FILE counts as this run's own.
//
// gpurun opens its own files with host.OpenOwn: never through a link, and only regular files.
// .gpurun, the batch folder, logs and attempts must belong to this user (or to root; for root,
// also to the job file's owner, whose commands it runs anyway), and nobody else may have write
// access. A group with its owner's name or number counts as the owner, so umask 002 with
// private groups works. A run gives the batch folder and its locks their modes
// (state/disk/access.go, reliability.md). On a file system without owners or modes a folder may
// only look open: creating a file in it tells (state/disk/trust.go). logs must not be a link.
// .gpurun and the batch folder may be, if the link is the user's own.
//
// gpurun mcp acts for somebody who may see only some folders. Each of its calls is a process of
// its own, gpurun __confined DIR… -- VERB …, in which host.Confine keeps everything that is
// opened by a name from a job file or a ledger to these folders, by the path of the open
// descriptor, so that no link can be replaced in between. outside (runner/batches/confined.go)
// refuses job files with paths that are only asked for, such as outputs. Whatever newly opens
// such a file goes through host.OpenReachable, host.OpenRegular or source.ReadRegular;
// runner/cli/mcpattack_test.go tries to get out.
//
// What is kept of a ledger is, for each key, the offsets of its last end and of that attempt's
// start; a record is read from there when somebody asks for it (state/disk/past.go).
// ledger.index has these offsets, and when each success that counts ended, with a checksum of
// itself and one of the lines it covers, so that a batch of 100,000 jobs with nothing to do does
// not decode 300,000 lines: a job needs none if its outputs are there, and no newer than that. One that is
// deleted, broken or of another ledger is ignored. A run that added more than a little rewrites
// it at the end.
//
// Consecutive facts of one step are one write, and all are in the ledger before anything that
// depends on them happens. An end that cannot be written stays in the attempt's own record, and
// is tried again until the run is over.
//
// A start names its job's seed group (Job.SeedGroup: the jobs that differ only in seeds). The
// history adds up what the last 20 successes of each took (state/seedgroup.go), for at most
// 4,096 groups; the index has them, so no line is read again. runner/sched/usagestats.go uses
// it.
//
// A run fact begins a run in each ledger, and an over fact ends it, unless the run was killed.
// Starts and over facts carry the GPU time that was lost since the start before
// (runner/sched/waste.go). state.RunHistory adds up runs and attempts for gpurun history.
// batches.jsonl, of which gpurun ls knows a user's batches, is outside the state folders
// (state/disk/used.go); nothing depends on it.
//
// History is looked up by key, a hash of what a job does; names are only labels. jobfile.md
// says what the key includes. The recipe has a version, so a later gpurun never reruns old work
// because the recipe changed.
package disk
