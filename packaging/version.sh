#!/usr/bin/env bash
# version.sh FORM prints the version of this checkout: git (v0.9.0-3-g1f4143b), as gpurun --version prints it, deb
# (0.9.0+3.g1f4143b, for dpkg and rpm) or pep440 (for wheels). Without a tag it counts commits: v0.0.0-929-g1f4143b.
# A changed file adds -dirty. VERSION overrides what git says.
set -euo pipefail
v=${VERSION:-$(git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null)} || true
if [ -z "$v" ]; then
	hash=$(git rev-parse --short HEAD 2>/dev/null) || { echo v0.0.0; exit; }
	v=v0.0.0-$(git rev-list --count HEAD)-g$hash
	git diff-index --quiet HEAD -- || v=$v-dirty
fi
case $1 in
git) echo "$v" ;;
deb | pep440)
	# -rc.1 sorts before the release, commits after a tag sort after it.
	echo "${v#v}" | sed -E "s/-(rc|beta|alpha)\.([0-9]+)/@\1\2/; s/-([0-9]+)-g([0-9a-f]+)/+\1.g\2/; s/-dirty/+dirty/; s/\+([^+]*)\+/+\1./" |
		if [ "$1" = deb ]; then sed -E 's/@(rc|beta|alpha)/~\1./'; else sed -E 's/@//; s/beta/b/; s/alpha/a/'; fi
	;;
*) echo "version.sh: unknown form: $1 (git, deb or pep440)" >&2; exit 2 ;;
esac
