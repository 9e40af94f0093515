#!/bin/bash
# A small real Slurm on this host for tests: two nodes with four simulated GPUs each.
#
#   cluster.sh up      installs missing packages and starts an empty cluster
#   cluster.sh start   starts the daemons that are not running, such as a killed controller
#   cluster.sh kill    kills the controller, as a crash would
#   cluster.sh down    ends the jobs and the daemons
#
# The script needs root on Debian or Ubuntu. Otherwise it reports what is missing and exits with 77.
# The daemons listen only on 127.0.0.1. No other Slurm is changed: all files are in $DIR and
# /etc/slurm, where the first line of slurm.conf marks the configuration as ours.
set -eu
DIR=/var/lib/gpurun-test-slurm
ETC=/etc/slurm
MARK='# made by the tests of gpurun'
NODES='node1 node2'
GPUS=4
PORT=18817
NAME=Slurm
. "$(dirname "$0")/../../testdata/daemons.sh"

ours() { [ "$(head -n 1 "$ETC/slurm.conf" 2>/dev/null)" = "$MARK" ]; }

configure() {
	local name n i=0 tracking='ProctrackType=proctrack/linuxproc
TaskPlugin=task/none'
	name=$(hostname -s)
	: >"$ETC/cgroup.conf.new"
	if grep -q ' /sys/fs/cgroup/freezer cgroup ' /proc/mounts && grep -q ' /sys/fs/cgroup/memory cgroup ' /proc/mounts &&
		mkdir /sys/fs/cgroup/freezer/gpurun_try 2>/dev/null; then
		rmdir /sys/fs/cgroup/freezer/gpurun_try
		tracking='ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup'
		printf '%s\n' CgroupPlugin=cgroup/v1 CgroupMountpoint=/sys/fs/cgroup CgroupAutomount=no \
			ConstrainCores=no ConstrainDevices=no ConstrainRAMSpace=yes >"$ETC/cgroup.conf.new"
	fi
	mv "$ETC/cgroup.conf.new" "$ETC/cgroup.conf"
	{
		cat <<-END
			$MARK
			ClusterName=gpurun-test
			SlurmctldHost=$name(127.0.0.1)
			SlurmctldPort=$PORT
			CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
			SlurmUser=root
			SlurmdUser=root
			AuthType=auth/munge
			AuthInfo=socket=$DIR/run/munge.socket,cred_expire=20
			CredType=cred/munge
			StateSaveLocation=$DIR/state
			SlurmdSpoolDir=$DIR/spool/%n
			SlurmctldPidFile=$DIR/run/slurmctld.pid
			SlurmdPidFile=$DIR/run/slurmd-%n.pid
			SlurmctldLogFile=$DIR/log/slurmctld.log
			SlurmdLogFile=$DIR/log/slurmd-%n.log
			MailProg=/bin/true
			MpiDefault=none
			SwitchType=switch/none
			JobAcctGatherType=jobacct_gather/none
			AccountingStorageType=accounting_storage/none
			SelectType=select/cons_tres
			SelectTypeParameters=CR_Core_Memory
			DefMemPerCPU=500
			SchedulerType=sched/backfill
			SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
			PreemptType=preempt/partition_prio
			PreemptMode=CANCEL
			MinJobAge=60
			MaxJobCount=50000
			MaxArraySize=2001
			KillWait=5
			SlurmdTimeout=60
			ReturnToService=2
			SlurmdParameters=config_overrides
			$tracking
			GresTypes=gpu
			TaskProlog=$DIR/taskprolog
		END
		for n in $NODES; do
			i=$((i + 1))
			echo "NodeName=$n NodeHostname=$name NodeAddr=127.0.0.1 Port=$((PORT + i)) CPUs=16 RealMemory=16000 Gres=gpu:$GPUS"
		done
		echo 'PartitionName=gpu Nodes=ALL Default=YES PriorityTier=1'
		echo 'PartitionName=urgent Nodes=ALL PriorityTier=10 PreemptMode=OFF'
	} >"$ETC/slurm.conf"
	{
		echo "$MARK"
		echo AutoDetect=off
		echo "NodeName=node[1-2] Name=gpu File=$DIR/gpu/gpu[0-$((GPUS - 1))]"
	} >"$ETC/gres.conf"
	cat >"$DIR/taskprolog" <<-'END'
		#!/bin/sh
		echo export ZE_AFFINITY_MASK=0.1
		echo "export LD_LIBRARY_PATH=/site:$LD_LIBRARY_PATH"
	END
	chmod +x "$DIR/taskprolog"
	# Slurm derives CUDA_VISIBLE_DEVICES from the numbers of device files. These have no driver.
	for ((i = 0; i < GPUS; i++)); do mknod -m 666 "$DIR/gpu/gpu$i" c 240 "$i"; done
}

munge_answers() { munge -S "$DIR/run/munge.socket" -n </dev/null; }
controller_answers() { timeout 5 scontrol ping | grep -q 'is UP'; }
# nodes_ready checks that all nodes accept jobs. It resumes a node that a crash has drained for no
# reason.
nodes_ready() {
	local node state ready=0
	while read -r node state; do
		case $state in
		idle | mixed | allocated | completing) ;;
		*drain* | *drng* | down*) timeout 5 scontrol update nodename="$node" state=resume; ready=1 ;;
		*) ready=1 ;;
		esac
	done < <(timeout 5 sinfo -h -N -p gpu -o '%N %T' || echo '- -')
	return $ready
}

start() {
	if ! alive munged; then
		rm -f "$DIR"/run/munge.socket*
		mkdir -p "$DIR/run/munged" && chown munge: "$DIR/run" "$DIR/run/munged"
		[ -s "$DIR/run/munged/key" ] || (umask 077 && head -c 128 /dev/urandom >"$DIR/run/munged/key")
		chown munge: "$DIR/run/munged/key"
		daemon setpriv --reuid=munge --regid=munge --init-groups munged --socket="$DIR/run/munge.socket" \
			--key-file="$DIR/run/munged/key" --pid-file="$DIR/run/munged.pid" \
			--seed-file="$DIR/run/munged/seed" --log-file="$DIR/run/munged/munged.log"
		until_ok 10 munge_answers || fail "munged does not answer: see $DIR/run/munged/munged.log"
	fi
	local n register=
	alive slurmctld || {
		daemon slurmctld
		register=1
	}
	until_ok 20 controller_answers || fail "slurmctld does not answer: see $DIR/log/slurmctld.log"
	for n in $NODES; do
		mkdir -p "$DIR/spool/$n"
		# A node reports its tasks when slurmd starts, and otherwise only after six minutes. Until
		# then, a controller that has crashed considers ended tasks running. So restart slurmd.
		[ -z "$register" ] || end "slurmd-$n" TERM
		alive "slurmd-$n" || daemon slurmd -N "$n"
	done
	until_ok 40 nodes_ready || fail "the nodes take no jobs: see $DIR/log"
}

# end_steps kills leftover processes of jobs once the daemons are gone. It finds them by the cgroups of
# our nodes and by the environment that Slurm gave them.
end_steps() {
	local n p
	for n in $NODES; do
		for p in $(cat /sys/fs/cgroup/freezer/slurm_$n/*/*/*/cgroup.procs 2>/dev/null); do kill -KILL "$p" 2>/dev/null || true; done
	done
	for p in /proc/[0-9]*; do
		if tr '\0' '\n' 2>/dev/null <"$p/environ" | grep -qx 'SLURM_CLUSTER_NAME=gpurun-test'; then
			kill -KILL "${p#/proc/}" 2>/dev/null || true
		fi
	done
}

down() {
	[ -d "$DIR" ] || return 0
	local n
	if ours && alive slurmctld && controller_answers; then
		timeout 10 scancel -Q -u root || true
		idle() { [ -z "$(timeout 5 squeue -h)" ]; }
		until_ok 10 idle || true
	fi
	for n in $NODES; do end "slurmd-$n" TERM; done
	end slurmctld TERM
	if ours; then
		end_steps
		rm -f "$ETC/slurm.conf" "$ETC/gres.conf" "$ETC/cgroup.conf"
	fi
	end munged TERM
	rm -rf "$DIR"
}

[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || lacks 'that takes root on Debian'
case ${1:-} in
up)
	[ ! -e "$ETC/slurm.conf" ] || ours || lacks "this host has one of its own ($ETC/slurm.conf)"
	down
	umask 022
	mkdir -p "$DIR"/{log,run,state,spool,gpu} "$ETC"
	install_packages munge slurmctld slurmd slurm-client
	configure
	start
	echo "Slurm $(sinfo -V | cut -d' ' -f2): $NODES with $GPUS GPUs each"
	;;
start) start ;;
kill) end slurmctld KILL ;;
down) down ;;
*) fail 'usage: cluster.sh up|start|kill|down' ;;
esac
