#!/bin/sh
# Tests what README.md says about installation. TestPageExamplesWork in runner/cli runs the README's gpurun commands, and
# .ci/run its make commands. With "packages", tests what the README says about the packages in dist/.
set -eu
cd "$(dirname "$0")/.."
here=$PWD
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
say() { printf 'readme: %s\n' "$*"; }
fail() { say "FAILED: $*"; cat "$tmp/out" 2>/dev/null; exit 1; }

if [ "${1:-}" = packages ]; then
	cd dist
	HOME=$tmp/home sh -ec "$(sed -n '/^mkdir -p ~.*tar /p' ../README.md)" || fail 'the archive'
	"$tmp/home/.local/bin/gpurun" version >"$tmp/out" || fail 'the binary of the archive'
	if command -v apt-get >/dev/null; then
		apt-get install --simulate ./gpurun_*.deb >"$tmp/out" 2>&1 || fail 'the .deb'
		grep -q '^Inst gpurun ' "$tmp/out" || fail 'the .deb'
	fi
	say ok
	exit
fi

say 'gpurun version'
bin/gpurun version >"$tmp/out"
grep -qF "gpurun $(packaging/version.sh git)" "$tmp/out" || fail "the version differs from git's"

say 'make install, make uninstall'
make -s install DESTDIR="$tmp/dest" PREFIX=/usr GO=no-go >"$tmp/out" 2>&1 || fail 'sudo make install, whose PATH may lack Go'
make -s install DESTDIR="$tmp/dest" PREFIX=/usr >"$tmp/out" 2>&1 || fail 'make install'
find "$tmp/dest" -type f | sed "s|$tmp/dest/usr/||" | sort >"$tmp/installed"
cat >"$tmp/want" <<'FILES'
bin/gpurun
share/bash-completion/completions/gpurun
share/doc/gpurun/LICENSE
share/doc/gpurun/README.md
share/doc/gpurun/jobs/command.txt
share/doc/gpurun/jobs/config.yaml
share/doc/gpurun/jobs/configs/CIFAR10.yaml
share/doc/gpurun/jobs/configs/SVHN.yaml
share/doc/gpurun/jobs/experiment_list.yaml
share/doc/gpurun/jobs/gamma_sensitivity.yaml
share/doc/gpurun/jobs/lambda_max_sensitivity.yaml
share/doc/gpurun/jobs/multi_seed.yaml
share/doc/gpurun/jobs/pipeline.sh
share/doc/gpurun/jobs/random_search.yaml
share/doc/gpurun/jobs/results.yaml
share/doc/gpurun/jobs/train.sh
share/doc/gpurun/jobs/tuned.csv
share/doc/gpurun/jobs/tuned.yaml
share/fish/vendor_completions.d/gpurun.fish
share/man/man1/gpurun.1
share/zsh/site-functions/_gpurun
FILES
cmp "$tmp/installed" "$tmp/want" >"$tmp/out" 2>&1 || fail "make install put in place: $(cat "$tmp/installed")"
cmp bin/gpurun "$tmp/dest/usr/bin/gpurun" >"$tmp/out" 2>&1 || fail 'make install installed another binary'
grep -q '^\.TH GPURUN 1' "$tmp/dest/usr/share/man/man1/gpurun.1" || fail 'no man page was installed'
make -s uninstall DESTDIR="$tmp/dest" PREFIX=/usr >"$tmp/out" 2>&1
[ -z "$(find "$tmp/dest" -type f)" ] || fail "make uninstall left $(find "$tmp/dest" -type f)"

say ok
