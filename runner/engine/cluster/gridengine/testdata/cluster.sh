#!/bin/bash
# A small real Grid Engine on this host for tests: one host with 16 slots and four countable GPUs.
#
#   cluster.sh up      installs missing packages and starts an empty cluster
#   cluster.sh start   starts the daemons that are not running, such as a killed master
#   cluster.sh kill    kills the master, as a crash would
#   cluster.sh down    ends the jobs and the daemons
#
# The script needs root on Debian or Ubuntu. Otherwise it reports what is missing and exits with 77.
# The daemons listen only on 127.0.0.1. No other Grid Engine is changed: all files are in $DIR and in
# the default cell, where a file marks the cell as ours.
set -eu
DIR=/var/lib/gpurun-test-sge
export SGE_ROOT=/var/lib/gridengine SGE_CELL=default
COMMON=$SGE_ROOT/$SGE_CELL/common
GPUS=4
NAME='Grid Engine'
GID=65300 # first of 101 group IDs for the processes of jobs
. "$(dirname "$0")/../../testdata/daemons.sh"

ours() { [ -e "$COMMON/gpurun-test" ]; }

# The daemons listen on all addresses, and no setting changes that. This library makes them listen on
# 127.0.0.1.
loopback() {
	cc -shared -fPIC -O1 -o "$DIR/run/loopback.so" -x c - <<-'END'
		#define _GNU_SOURCE
		#include <arpa/inet.h>
		#include <dlfcn.h>
		#include <string.h>
		int bind(int fd, const struct sockaddr *a, socklen_t n)
		{
			int (*real)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "bind");
			struct sockaddr_in in;
			if (a->sa_family != AF_INET || n < sizeof in) return real(fd, a, n);
			memcpy(&in, a, sizeof in);
			if (in.sin_addr.s_addr == htonl(INADDR_ANY)) in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
			return real(fd, (struct sockaddr *)&in, sizeof in);
		}
	END
}

# cell creates an empty cell.
cell() {
	local name names
	name=$(hostname)
	names=$(getent hosts 127.0.0.1 | cut -d' ' -f2-)
	mkdir -p "$DIR"/{spooldb,qmaster/job_scripts,execd,locks} "$COMMON"
	rm -f "$COMMON"/{accounting,cluster_name}
	touch "$COMMON/gpurun-test"
	cat >"$COMMON/bootstrap" <<-END
		admin_user              sgeadmin
		default_domain          none
		ignore_fqdn             false
		spooling_method         berkeleydb
		spooling_lib            libspoolb
		spooling_params         $DIR/spooldb
		binary_path             /usr/sbin
		qmaster_spool_dir       $DIR/qmaster
		security_mode           none
		listener_threads        2
		worker_threads          2
		scheduler_threads       1
	END
	echo "$name" >"$COMMON/act_qmaster"
	# Each name of 127.0.0.1 must be an alias of this host, or the daemons reject each other.
	echo "$name $names localhost" | tr -s ' ' '\n' | awk 'NF && !seen[$0]++' | paste -sd' ' >"$COMMON/host_aliases"
	chown -R sgeadmin: "$DIR"/{spooldb,qmaster,execd} "$COMMON"
	local as="setpriv --reuid=sgeadmin --regid=sgeadmin --clear-groups"
	daemon $as /usr/share/gridengine/scripts/init_cluster "$SGE_ROOT" "$SGE_CELL" "$DIR/spooldb" sgeadmin
	daemon $as /usr/lib/gridengine/spooldefaults managers root
}

# put NAME VALUE…: replaces the lines with these names in its input, and adds the missing ones.
put() {
	awk 'BEGIN { for (i = 1; i < ARGC; i += 2) { value[ARGV[i]] = ARGV[i + 1]; ARGV[i] = ARGV[i + 1] = "" } }
		$1 in value { print $1, value[$1]; delete value[$1]; skip = /\\$/; next }
		skip { skip = /\\$/; next }
		{ print }
		END { for (k in value) print k, value[k] }' "$@"
}

# tell COMMAND…: runs a command that configures the master.
tell() { timeout 10 "$@" </dev/null >>"$DIR/log/start.log" 2>&1 || fail "$* failed: see $DIR/log/start.log"; }

configure() {
	local to=$DIR/run/global name # qconf -Mconf takes the name of the configuration from the file name
	name=$(hostname)
	# Root may run jobs. Jobs read no login files. Accounts are written immediately.
	timeout 10 qconf -sconf | grep -v '^#' | put execd_spool_dir "$DIR/execd" mailer /bin/true administrator_mail none \
		login_shells none min_uid 0 min_gid 0 gid_range $GID-$((GID + 100)) execd_params INHERIT_ENV=false,ENABLE_ADDGRP_KILL=true \
		reporting_params 'accounting=true reporting=false flush_time=00:00:01 accounting_flush_time=00:00:00 joblog=false sharelog=00:00:00' \
		load_report_time 00:00:05 max_unheard 00:01:00 reschedule_unknown 00:00:00 >"$to"
	tell qconf -Mconf "$to"
	timeout 10 qconf -ssconf | put schedule_interval 0:0:2 flush_submit_sec 1 flush_finish_sec 1 >"$to"
	tell qconf -Msconf "$to"
	# GPUs are counted per job, not per slot.
	{ timeout 10 qconf -sc | grep -v '^#'; echo 'gpu gpu INT <= YES JOB 0 0'; echo 'gpu_type gpu_type RESTRING == YES NO NONE 0'; } >"$to"
	tell qconf -Mc "$to"
	timeout 10 qconf -as "$name" >>"$DIR/log/start.log" 2>&1 || true # it may be a submit host already
	cat >"$to" <<-END
		hostname $name
		load_scaling NONE
		complex_values gpu=$GPUS,gpu_type=sim
		user_lists NONE
		xuser_lists NONE
		projects NONE
		xprojects NONE
		usage_scaling NONE
		report_variables NONE
	END
	tell qconf -Ae "$to"
	cat >"$to" <<-END
		pe_name smp
		slots 9999
		user_lists NONE
		xuser_lists NONE
		start_proc_args NONE
		stop_proc_args NONE
		allocation_rule \$pe_slots
		control_slaves FALSE
		job_is_first_task TRUE
		urgency_slots min
		accounting_summary FALSE
		qsort_args NONE
	END
	tell qconf -Ap "$to"
	hooks
	timeout 10 qconf -sq | put qname gpu.q hostlist "$name" slots 16 pe_list smp shell /bin/bash shell_start_mode unix_behavior \
		tmpdir /tmp rerun FALSE load_thresholds NONE notify 00:00:05 prolog "root@$DIR/run/prolog" epilog "root@$DIR/run/epilog" >"$to"
	tell qconf -Aq "$to"
}

# hooks writes a prolog and an epilog like those of real sites: they assign GPU numbers to jobs that
# request GPUs. A GPU is in use as long as it has a folder in locks/.
hooks() {
	cat >"$DIR/run/prolog" <<-END
		#!/bin/sh
		export SGE_ROOT=$SGE_ROOT SGE_CELL=$SGE_CELL
		[ ! -e "$DIR/run/broken" ] || exit 100 # a test has broken the node
		i=0
		until job=\$(qstat -j "\$JOB_ID" 2>/dev/null); do # the master may be down for a while
			[ \$i -lt 300 ] || exit 99
			i=\$((i + 1))
			sleep 0.2
		done
		n=\$(echo "\$job" | sed -n 's/^hard resource_list:.*[ ,]gpu=\([0-9]*\).*/\1/p')
		ids=
		i=0
		while [ \$i -lt $GPUS ] && [ "\${n:-0}" -gt 0 ]; do
			holder=\$(cat "$DIR/locks/\$i/job" 2>/dev/null)
			[ -z "\$holder" ] || [ -d "\$holder" ] || rm -rf "$DIR/locks/\$i" # the holder died with its host
			if mkdir "$DIR/locks/\$i" 2>/dev/null; then
				echo "\$SGE_JOB_SPOOL_DIR" >"$DIR/locks/\$i/job"
				ids=\$ids\${ids:+,}\$i
				n=\$((n - 1))
			fi
			i=\$((i + 1))
		done
		if [ "\${n:-0}" -gt 0 ]; then
			"$DIR/run/epilog"
			exit 99 # return the job to the queue
		fi
		echo "CUDA_VISIBLE_DEVICES=\$ids" >>"\$SGE_JOB_SPOOL_DIR/environment"
	END
	cat >"$DIR/run/epilog" <<-END
		#!/bin/sh
		for lock in "$DIR"/locks/*; do
			[ "\$(cat "\$lock/job" 2>/dev/null)" != "\$SGE_JOB_SPOOL_DIR" ] || rm -rf "\$lock"
		done
		exit 0
	END
	chmod 755 "$DIR/run/prolog" "$DIR/run/epilog"
}

master_answers() { timeout 5 qconf -sm; }
queue_ready() { timeout 5 qstat -f -q gpu.q | awk '$1 ~ /^gpu.q@/ { ok = NF == 5 } END { exit !ok }'; }
execd_pid() { ln -sfn "$(ls "$DIR"/execd/*/execd.pid)" "$DIR/run/sge_execd.pid"; } # the folder of the pid file is named after the host

start_master() {
	ln -sfn "$DIR/qmaster/qmaster.pid" "$DIR/run/sge_qmaster.pid"
	alive sge_qmaster || daemon env LD_PRELOAD="$DIR/run/loopback.so" sge_qmaster
	until_ok 20 master_answers || fail "sge_qmaster does not answer: see $DIR/qmaster/messages"
}

start_execd() {
	if ! alive sge_execd; then
		rm -f "$DIR"/execd/*/execd.pid
		daemon env LD_PRELOAD="$DIR/run/loopback.so" sge_execd
		until_ok 10 execd_pid || fail "sge_execd does not start: see $DIR/log/start.log"
	fi
	timeout 5 qmod -cq gpu.q >/dev/null 2>&1 || true # it may have disabled itself
	until_ok 60 queue_ready || fail "gpu.q takes no jobs: see $DIR/qmaster/messages" # takes half a minute after a crash
}

# job_pids lists processes that have the group ID of a job.
job_pids() {
	awk -v from=$GID -v to=$((GID + 100)) '/^Pid:/ { pid = $2 }
		/^Groups:/ { for (i = 2; i <= NF; i++) if ($i >= from && $i <= to) { print pid; break } }' /proc/[0-9]*/status 2>/dev/null
}

down() {
	[ -d "$DIR" ] || return 0
	local p
	if ours && alive sge_qmaster && master_answers >/dev/null 2>&1; then
		timeout 10 qdel -f -u '*' >/dev/null 2>&1 || true
		idle() { [ -z "$(timeout 5 qstat -u '*')" ]; }
		until_ok 10 idle || true
	fi
	end sge_execd TERM
	for p in $(job_pids); do kill -KILL "$p" 2>/dev/null || true; done
	end sge_qmaster TERM
	if ours; then rm -f "$COMMON"/{gpurun-test,bootstrap,act_qmaster,host_aliases,accounting}; fi
	rm -rf "$DIR"
}

[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || lacks 'that takes root on Debian'
case ${1:-} in
up)
	ours || ! grep -q '[^[:space:]]' "$COMMON/act_qmaster" 2>/dev/null || lacks "this host has one of its own ($COMMON)"
	down
	umask 022
	mkdir -p "$DIR"/{log,run}
	install_packages gridengine-master gridengine-exec gridengine-client gcc libc6-dev
	loopback
	cell
	start_master
	configure
	start_execd
	echo "Grid Engine $(qstat -help | sed -n '1s/.* //p'): $(hostname) with 16 slots and $GPUS GPUs"
	;;
start)
	start_master
	start_execd
	;;
kill) end sge_qmaster KILL ;;
down) down ;;
*) fail 'usage: cluster.sh up|start|kill|down' ;;
esac
