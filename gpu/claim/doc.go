// Package claim lets all gpurun processes on a host, of all users, see which GPUs each of them
// holds, without a daemon and without root.
//
// A claim belongs to an attempt and lists its devices, with the memory granted on each. It is a
// file in the user's own folder below a root that all users share. A Holder creates claims and
// locks each file for as long as the attempt's processes live. When the holder dies, for whatever
// reason, the kernel releases the lock. A Reader reads all users' folders and trusts none of them:
// it ignores, with a warning, everything except regular files of the folder's owner, and nothing in
// a folder can delay it for long.
//
// A claim counts while its lock is held and its process exists. To claim a GPU, publish the claim
// first, then read all others: if two runs claim at the same time, at least one sees the other.
//
// # Claims
//
//   - A claim is /var/tmp/gpurun-<uid>/<uni_id>.claim, in JSON (GPURUN_CLAIMS_DIR replaces
//     /var/tmp). The keeper holds it until no process of the attempt's tree is left; jobs do not
//     inherit the lock. So killing the runner changes nothing, and a dead keeper leaves no valid
//     claim. If a keeper dies, the runner claims the GPUs of surviving processes within
//     milliseconds, until the next keeper has claimed them again. If both die, surviving processes
//     have no claim until the next run finds them. Until then, other runs see them only in the
//     readings.
//   - After publishing a claim, the keeper reads all others. The core receives these with Prepared,
//     and gpu.Pool.Conflict judges them. A conflict means that the race was lost: no start is
//     recorded, no retry is spent, and the core tries again after 5 to 50 ms. A flock on the root
//     makes collisions rare, but nothing depends on it, and no run waits for it longer than 2 s.
//   - Hand-over. When an attempt ends, the keeper keeps its claim, and the core deals its devices
//     one by one (runner/sched/fair.go): to this run's next attempt, or to another run. The core
//     sends Yield for a device once no waiting job can use it or the next claim is visible. So the
//     old claim ends only after the new one begins. Memory in use by no visible process may still
//     be the ended job's, if the driver is slow to free it. It counts as the job's for the 30 s of
//     a hand-over, or until a process list or another claim shows another user of the device
//     (gpu.Pool.Release). If the runner dies, such claims end as soon as its connection to the
//     keeper closes. If the runner is stopped, they end after 30 s. Within 2 s, the claim itself
//     shows that its attempt has ended (gpurun gpus: "for the job after train-3").
//   - Offers. If it is another run's turn, the core sends Offer, and the keeper writes that run's
//     ID to the claim (field to). For all other runs, the file remains a claim. The named run treats
//     the device like one that its own job has just released, and claims it while the offer is still
//     valid. An offer ends when the named run has claimed the device (even if the offering run is
//     stopped), when the named run wants no more devices, or after the host's courtesy period. Only
//     in the last case is the named run's user skipped, and only if no rival's claim was in the
//     way. The device is then dealt again, until the hand-over has lasted 30 s.
//   - Any other run that claims a device during a hand-over finds the old claim and withdraws. So
//     the pool ignores other claims on a device until it is yielded (gpu.Pool.Yield), and, unlike
//     in a race between equals, the next attempt's claim does not yield to such a rival
//     (handover.go). A claim is changed by overwriting its file in place, because if a new file
//     replaced it, a reader could miss both.
//   - Wishes. A run publishes what it waits for in a file next to its claims (wish.go). The file
//     exists while a job waits for a GPU, or for cores or memory that others hold. It also exists
//     while jobs without GPUs hold cores or memory, and lists what they hold, because such jobs have
//     no claims. Each run computes the order of wishes from the same data (gpu/round.go);
//     scheduling.md explains it for users.
//   - Gathering. A gathering claim belongs to no attempt (gpu.Grant.Gathering) and covers one GPU.
//     It is made through the keeper like any other (Gather, Gathered, Ungather). The wish shows
//     that its run gathers, so that other runs offer it each GPU they release. Readers keep such
//     claims separate and determine by their own clock how long they count (gpu/gather.go).
//     Grant.Since orders claims in the same way for all runs.
//   - Noticing. The runner watches all users' folders with inotify (watch.go), for files that are
//     written, removed, or closed because their holder died. It does not watch for reads, because
//     readers would then wake each other. An offer to this run, or a claim by a run to which it has
//     offered a device, is reported immediately as ClaimsChanged, any other change within about a
//     second.
//   - An incomplete reading leaves doubt, and nothing starts while there is doubt (doubt.go). The
//     time limit of a reading does not include time during which the process was stopped, so a
//     process that resumes after hours still completes its reading and finds any conflict.
//   - Any user can create a folder below the root, even one with another user's name. So a user's
//     folders are all folders called gpurun-<uid> or gpurun-<uid>.* that this user owns. Runs write
//     to the first one, and create one with a random suffix if another user has taken the plain
//     name. Up to 8 folders of a user are read.
//   - A file counts only if it is a regular file of the folder's owner, of at most 64 KiB, and it
//     counts only once, however many names it has. Up to 4,096 names per user are listed. A folder
//     or root is listed again only when its ctime has changed (folderListing). Until then,
//     published files without a lock are not opened again, so names cost other users next to
//     nothing. Folders are read in parallel, each in a goroutine that is abandoned if its file
//     system hangs; the whole reading takes at most a second. Warnings, each given once, report
//     what was ignored.
//   - If a user cannot claim below the root (it is full, or not writable), claims go to the runtime
//     folder ($XDG_RUNTIME_DIR, /run/user/UID), else to ~/.local/state/gpurun/claims-HOST, where
//     all runs of this user look for claims.
//   - Every full reading of the GPUs includes other runs' claims, and how much of each claim's
//     memory the processes below its holder use, if known. This lets a waiting job and gpurun gpus
//     report who holds what.
//   - A run does not mistake its own claims for another's, because the engine keeps the uni_ids of
//     its attempts. A gpurun inside a job ignores that job's claim.
//   - The claim of gpurun exec is also held by a keeper, which launches nothing. It receives the
//     command's PID. If gpurun exec is killed, the keeper holds the claim for as long as the
//     command lives.
//   - Simulated GPUs given inline are private and not claimed. Those in a file are identified by
//     its path, so that runs can share them.
//   - All uids in claims and readings are the host's (state/host/uids.go).
//
// Resizing (runner/sched/resize.go). The core sends Save. The keeper looks for processes that catch
// the signal, announces the stop (in the ledger first, as for a timeout), signals them, waits, and
// stops the job. The GPUs that the job keeps stay claimed for it, and the others are offered. The
// status record contains the deadline, so a dead keeper changes nothing.
package claim
