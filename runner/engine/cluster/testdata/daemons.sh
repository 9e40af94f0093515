# Functions shared by the test clusters. Each cluster.sh sets DIR and NAME and sources this file.
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin

lacks() { echo "not tested with a real $NAME: $*"; exit 77; }
fail() { echo "cluster.sh: $*" >&2; exit 1; }

# until_ok SECONDS COMMAND…: repeats the command until it succeeds, for up to SECONDS.
until_ok() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

# alive NAME: checks that the process in NAME.pid is running and is that daemon.
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

# daemon COMMAND…: starts a daemon that keeps no open files of the caller.
daemon() {
	(
		cd /
		for fd in /proc/self/fd/*; do # for example a lock
			[ "${fd##*/}" -le 2 ] || eval "exec ${fd##*/}>&-"
		done
		exec "$@" </dev/null >>"$DIR/log/start.log" 2>&1
	)
}

# install_packages NAME…: installs the missing packages without starting their services.
install_packages() {
	local missing=() p
	for p; do
		[ "$(dpkg-query -Wf '${Status}' "$p" 2>/dev/null)" = 'install ok installed' ] || missing+=("$p")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	echo "installing ${missing[*]}"
	exec 8>/run/gpurun-test-packages.lock && flock 8 # because apt-get update does not wait for other processes
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
