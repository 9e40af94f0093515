#!/usr/bin/env bash
# sysroot.sh ARCH DIR unpacks Debian 11's C library for amd64 or arm64 into DIR and writes DIR/cc, a C compiler
# that links against it. A binary built that way starts wherever glibc is at least as old as check-elf.sh asks.
# It needs apt-get and dpkg-deb, but not root. sysroot.sha256 pins every package.
set -euo pipefail
arch=$1
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$2"
dir=$(cd "$2" && pwd)
case $arch in
amd64) triple=x86_64-linux-gnu ;;
arm64) triple=aarch64-linux-gnu ;;
*) echo "sysroot.sh: unknown architecture: $arch (amd64 or arm64)" >&2; exit 2 ;;
esac
if cmp -s "$here/sysroot.sha256" "$dir/complete" 2>/dev/null; then exit 0; fi
for tool in apt-get dpkg-deb sha256sum "$triple-gcc"; do
	command -v "$tool" >/dev/null || { echo "sysroot.sh: missing: $tool (Debian: apt-get install apt dpkg coreutils gcc-${triple//_/-})" >&2; exit 1; }
done

# The mirror that this machine uses for Debian itself.
site=$(apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' | awk '$1 ~ /\/debian\/?$/ {print $1; exit}')
[ -n "$site" ] || { echo 'sysroot.sh: no Debian mirror in /etc/apt/sources.list' >&2; exit 1; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial"
echo "deb [trusted=yes] $site bullseye main" >"$tmp/sources.list" # sysroot.sha256 vouches for the packages
apt() {
	apt-get -qq -o Dir::Etc::sourcelist="$tmp/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::Lists="$tmp/lists" \
		-o Dir::Cache="$tmp/cache" -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o APT::Sandbox::User= "$@"
}
grep "_$arch.deb\$" "$here/sysroot.sha256" >"$tmp/sums"
apt update
cd "$tmp"
while read -r _ deb; do
	pkg=${deb%%_*} version=${deb#*_}
	apt download "$pkg=${version%_*}"
done <sums
sha256sum --quiet -c sums
rm -rf "$dir"
mkdir -p "$dir"
for deb in *.deb; do dpkg-deb -x "$deb" "$dir"; done
# Absolute links would lead back to this machine's libraries.
find "$dir" -type l -lname '/*' | while read -r link; do
	ln -sfrn "$dir$(readlink "$link")" "$link"
done
# gcc searches its own folders before those of --sysroot, so they are named first. It is a command of one word
# because go build tries some flags with the first word of CC alone.
cat >"$dir/cc" <<CC
#!/bin/sh
exec $triple-gcc --sysroot='$dir' -isystem '$dir/usr/include' -isystem '$dir/usr/include/$triple' -B'$dir/usr/lib/$triple' -L'$dir/usr/lib/$triple' -L'$dir/lib/$triple' "\$@"
CC
chmod +x "$dir/cc"
cp "$here/sysroot.sha256" "$dir/complete"
