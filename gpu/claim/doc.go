// Package claim lets all gpurun processes on a host, of all users, see which GPUs each of them
// holds, without a daemon and without root.
//
// A claim belongs to an attempt and lists its devices, with the memory granted on each. It is a
// file in the user's own folder, gpurun-<uid>, below a root that all users share. A Holder creates
// claims and locks each file for as long as the attempt's processes live. When the holder dies, for
// whatever reason, the kernel releases the lock. A Reader reads all users' folders and trusts none
// of them: it ignores everything except regular files of the folder's owner, with a warning, and
// nothing in a folder can delay it for long.
//
// A claim counts while its lock is held and its process exists. To claim a GPU, publish the claim
// first, then read all others: if two runs claim at the same time, at least one sees the other.
//
// # Claims
//
// The kernel decides which claims are alive, so there is no daemon.
//
//   - A claim is a file for one attempt, /var/tmp/gpurun-<uid>/<uni_id>.claim
//     (GPURUN_CLAIMS_DIR replaces /var/tmp): JSON with the devices, the memory promised on
//     each, job, user and holder. It counts while its holder keeps it locked (flock) and
//     that process exists. The keeper holds it until nothing of the attempt's process tree
//     is left; jobs do not inherit the lock. So killing the runner changes nothing, and a
//     dead keeper leaves nothing that counts. If a keeper dies, the runner claims at once
//     (within milliseconds) for whatever lives on, until the next keeper has claimed again.
//     If both die, nothing is claimed for what lives on until the next run finds it; until
//     then other runs only have the readings.
//   - Hand-over. When an attempt ends, the keeper keeps its claim, and the core deals its
//     devices one by one (runner/sched/fair.go): to this run's next attempt, or to another
//     run. The core says Yield, device by device, once it knows that nobody waiting can
//     have the device or that the next claim is there. So the old claim ends after the new
//     one begins. Memory in use by no visible process may be the ended job's, if the driver
//     takes its time: for the 30 s of a hand-over it counts as that, until a process list
//     or another claim shows somebody there (gpu.Pool.Release). A runner that dies gives up
//     such claims at once, since they go with its connection to the keeper; one that is
//     stopped gives them up after 30 s. Within 2 s the claim itself says that its attempt
//     is over (gpurun gpus: "for the job after train-3").
//   - Offers. If it is another run's turn, the core says Offer, and the keeper writes that
//     run's ID into the claim (to). To every other run it stays a claim; the run that it
//     names sees a device like one that its own job has just left, and claims it beside the
//     offer. Its claim ends the offer. An offer ends when its run has claimed the device
//     (also if the offerer is stopped), when that run wants no more, or after the host's
//     courtesy; only the last passes its user over, and not if a rival's claim was in the
//     way. The device is then dealt again, for 30 s in all. A run that did not come goes
//     after its user's others.
//   - Anyone else who claims a device during a hand-over finds the old claim and withdraws.
//     So the next attempt's claim does not yield to such a rival, as it would in a race
//     between equals, but waits up to 2 s for those it saw; the old claim stays until then.
//     A claim is changed by overwriting it in place: with a new name, a reader could miss
//     both. For the same reason the pool ignores other claims on a device until it is
//     yielded (gpu.Pool.Yield).
//   - Wishes. What a run waits for is a file beside the claims, <run>.wish, locked by the
//     runner (gpu.Wish, at most 8 requests). It is written when a job waits for a GPU, or
//     for cores or memory that others hold, and removed when none does. It also says what
//     the run's jobs without GPUs hold of these: such jobs have no claims. The order among
//     wishes is computed by each run from the same data (gpu/round.go); scheduling.md has
//     it for users.
//   - Gathering. A gathering claim is a claim of no attempt (gpu.Grant.Gathering), one a
//     GPU, made through the keeper like any other (Gather, Gathered, Ungather). The wish
//     says that its run gathers (gathers), so that whoever leaves a GPU offers it one by
//     one. Readers keep such claims apart (gathers of a device in the pool) and judge by
//     their own clock how long they count, for each user (gpu/gather.go). Grant.Since
//     orders claims on all runs alike. A claim also says what cores and host memory its
//     attempt has reserved and when it ends (gpu.HostResources).
//   - Noticing. The runner watches all users' folders with inotify (gpu/claim/watch.go):
//     files written, removed, or closed because their holder died; not files read, or
//     readers would wake each other. An offer to this run, or the claim of a run that it
//     has offered something, is told at once, a wish within 100 ms, anything else once a
//     second at most, as ClaimsChanged. Where a user may watch no more folders, claims are read
//     once a second. A folder with over 1,000 events in a second is left alone for the rest
//     of it; reading on news takes at most 5% of a core, 25% for offers.
//   - The order is: publish, then read all others. If two runs claim at once, at least one
//     sees the other. What it saw reaches the core with Prepared, and gpu.Pool.Conflict
//     judges it. A conflict is a lost race: no start is recorded, no retry is used up, and
//     the core looks again after 5 to 50 ms. A flock on the root makes collisions rare, but
//     nothing depends on it, and nobody waits for it longer than 2 s.
//   - Whatever could not be read completely is doubt, and nothing starts in doubt
//     (gpu/claim/doubt.go). If this process lacks something (descriptors, a readable disk),
//     there is doubt until it has it again, and a warning says what to do. But no user may
//     block the host unseen by what they put into their folder: one that hangs or is
//     overfull causes doubt once an hour. After that, while a process of that user holds a
//     lock there (the warning names it), all GPUs count as claimed by that user
//     (gpu.Every), else the user's claims seen last count if their processes live. So a
//     cheat gains no more than by claiming outright, and files that nobody has locked are
//     never a reason to wait.
//   - A reading that did not finish lets nothing start. Its time limit ignores time during
//     which the process was stopped: one that continues after hours reads on and finds the
//     conflict.
//   - Anybody can make a folder below the root, also one with another's name. So a user's
//     folders are all that are called gpurun-<uid> or gpurun-<uid>.* and that this user
//     owns. Runs write to the first, and make one with a random ending where somebody else
//     has the plain name. Up to 8 of a user are read.
//   - Nothing in another user's folder is trusted. A folder counts only if its owner is the
//     uid in its name, which is checked before it is counted; a file only if it is a
//     regular file of that owner, of at most 64 KiB, under any number of names. Up to 4,096
//     names per user are listed. What a folder or the root has is listed again only when
//     its ctime has changed (claim.folderListing), and until then no file is opened again that
//     has been published and that nobody has locked: names cost the others next to nothing.
//     If the root has too many names to list in half a second, folders are looked up by the
//     users that have a process. Folders are read in parallel, each in a goroutine that is
//     abandoned if its file system hangs; the whole reading takes at most a second. A
//     warning, given once, names whatever was ignored.
//   - If a user cannot claim below the root (full, or without permission), claims go to the
//     runtime folder ($XDG_RUNTIME_DIR, /run/user/UID), else to
//     ~/.local/state/gpurun/claims-HOST: all runs of this user look there.
//   - Every full reading of the GPUs includes the others' claims, and how much of each is
//     in use, as far as processes below the holder show. That is how a waiting job and
//     gpurun gpus can say who holds what.
//   - A run does not mistake its own claims for another's: the engine knows its attempts by
//     uni_id, and remembers each while a reading is under way that may have seen it. A
//     gpurun inside a job ignores that job's claim.
//   - The claim of gpurun exec is also held by a keeper, which launches nothing. It is told
//     the command's pid, and if gpurun exec is killed it keeps the claim for as long as the
//     command lives.
//   - Simulated GPUs given inline are private and not claimed; those of a file are
//     identified by its path, so that runs can share them.
//
// A resize (runner/sched/resize.go). The core says Save; the keeper looks for processes that
// catch the signal, announces the stop (ledger first, as for a timeout), signals, waits, stops.
// The end's GPUs become a move: those the job keeps stay claimed for it, the others are
// offered. The status record has the deadline, so a dead keeper changes nothing.
//
// What users had. SET.usage (gpu/claim/usage.go) is not locked: it is replaced by rename, and
// its .new file is the lock. Config.Spent tells it what Core.Spent knows. All uids in claims
// and readings are the host's (state/host/uids.go).
//
// Quarantines. A quarantine is <uuid>.sick in the user's folder, read with the claims under the
// same rules, but held by nobody: it counts until its end (CLOCK_BOOTTIME) or the next boot,
// and its file stays to tell how long the next one lasts. One's own refuses the device (a row
// in gpu/admit.go), another's only moves it to the end of every pick. The core decides
// (runner/sched/health.go), the loop publishes (Engine.Quarantine).
//
// The rules of the host. Every reading brings them (Observation.Host) as of that moment. The
// pool judges devices, hours and quotas by them, as rows of admit.go; Conflict checks the quota
// again in the second reading. The core gives Prepare its timeout. What cannot be understood is
// reported and left out.
package claim
