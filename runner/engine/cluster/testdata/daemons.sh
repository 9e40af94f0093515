# What the test clusters have in common; sourced by their cluster.sh, which sets DIR and NAME.
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin

lacks() { echo "not tested with a real $NAME: $*"; exit 77; }
fail() { echo "cluster.sh: $*" >&2; exit 1; }

# until_ok SECONDS COMMAND…: waits for the command to succeed.
until_ok() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

# alive NAME: the daemon whose pid file is NAME.pid runs, and is that program.
alive() {
	local pid
	pid=$(cat "$DIR/run/$1.pid" 2>/dev/null) && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "${1%%-*}" ]
}

# end NAME SIGNAL: ends a daemon.
end() {
	alive "$1" || return 0
	kill "-$2" "$(cat "$DIR/run/$1.pid")" 2>/dev/null || true
	dead() { ! alive "$1"; }
	until_ok 10 dead "$1" || { kill -KILL "$(cat "$DIR/run/$1.pid")" 2>/dev/null || true; }
}

# daemon COMMAND…: starts one that keeps nothing of the caller's.
daemon() {
	(
		cd /
		for fd in /proc/self/fd/*; do # a lock, for example
			[ "${fd##*/}" -le 2 ] || eval "exec ${fd##*/}>&-"
		done
		exec "$@" </dev/null >>"$DIR/log/start.log" 2>&1
	)
}

# install_packages NAME…: what is missing of them, without starting services.
install_packages() {
	local missing=() p
	for p; do
		[ "$(dpkg-query -Wf '${Status}' "$p" 2>/dev/null)" = 'install ok installed' ] || missing+=("$p")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	echo "installing ${missing[*]}"
	exec 8>/run/gpurun-test-packages.lock && flock 8 # apt-get update waits for nobody
	local policy=/usr/sbin/policy-rc.d made=
	if [ ! -e $policy ]; then
		printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy
		made=1
	fi
	local apt="timeout 300 apt-get -qq -o DPkg::Lock::Timeout=120" ok=1
	DEBIAN_FRONTEND=noninteractive $apt update >"$DIR/log/apt.log" 2>&1 || true
	DEBIAN_FRONTEND=noninteractive $apt install -y --no-install-recommends "${missing[@]}" </dev/null >>"$DIR/log/apt.log" 2>&1 || ok=
	[ -z "$made" ] || rm -f $policy
	exec 8>&-
	[ -n "$ok" ] || {
		tail -n 5 "$DIR/log/apt.log" >&2
		lacks "cannot install ${missing[*]}"
	}
}
