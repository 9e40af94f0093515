#!/usr/bin/env bash
# check-elf.sh BINARY GLIBC fails unless BINARY starts on a system with that glibc and without a driver: it may need
# no newer symbol, no library outside glibc, no RPATH, and must bind NVML's symbols late, as none is there without a driver.
set -euo pipefail
bin=$1 max=$2
command -v readelf >/dev/null || { echo 'check-elf.sh: missing: readelf (Debian: apt-get install binutils)' >&2; exit 1; }
fail() { echo "check-elf.sh: $bin $*" >&2; exit 1; }

symbols=$(readelf --dyn-syms --wide "$bin")
newest=$(grep -o 'GLIBC_[0-9.]*' <<<"$symbols" | cut -d_ -f2 | sort -uV | tail -n 1)
[ -n "$newest" ] || fail 'is not linked with glibc'
[ "$(printf '%s\n' "$newest" "$max" | sort -V | tail -n 1)" = "$max" ] ||
	fail "needs glibc $newest (at most $max): $(grep "GLIBC_$newest\b" <<<"$symbols" | awk '{print $8}' | head -n 3 | xargs)"

dynamic=$(readelf --dynamic --wide "$bin")
! grep -qE 'BIND_NOW|\bNOW\b' <<<"$dynamic" || fail 'binds all symbols at start, so it dies without a driver (link with -z lazy)'
! grep -qE 'RPATH|RUNPATH' <<<"$dynamic" || fail 'has an RPATH'
others=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic" | grep -vE '^(lib(c|dl|pthread|resolv|m)\.so\.|ld-linux)' | xargs || true)
[ -z "$others" ] || fail "needs libraries outside glibc: $others"

# go-nvml has the linker leave every undefined symbol open, so that a missing one would show only when it is called.
open=$(awk '$7 == "UND" && $5 == "GLOBAL" && $8 != "" && $8 !~ /@/ && $8 !~ /^nvml[A-Z]/ {print $8}' <<<"$symbols" | xargs)
[ -z "$open" ] || fail "has undefined symbols that are not NVML's: $open"
echo "$bin needs glibc $newest"
