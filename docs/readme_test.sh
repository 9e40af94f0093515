#!/bin/sh
# Follows README.md as a newcomer would: runs its job file, and every gpurun command in
# its code blocks, in order. .ci/run runs the make commands.
set -eu
cd "$(dirname "$0")/.."
here=$PWD
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
say() { printf 'readme: %s\n' "$*"; }
fail() { say "FAILED: $*"; cat "$tmp/out" 2>/dev/null; exit 1; }

say 'gpurun version'
bin/gpurun version >"$tmp/out"
grep -qF "gpurun $(packaging/version.sh git)" "$tmp/out" || fail "the version differs from git's"

say 'make install, make uninstall'
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

# The README's job file calls python train.py; this stand-in writes its output.
mkdir "$tmp/work" "$tmp/path"
cat >"$tmp/path/python" <<'PY'
#!/bin/sh
sleep 0.5
mkdir -p ckpt
while [ $# -gt 0 ]; do [ "$1" = --out ] && : >"$2"; shift; done
echo trained
PY
chmod +x "$tmp/path/python"
ln -s "$here/bin/gpurun" "$tmp/path/gpurun"
export PATH="$tmp/path:$PATH" GPURUN_SIM=4x24GiB GPURUN_SIM_HERE=1
cd "$tmp/work"
awk '/^```yaml/ {on=1; next} /^```/ {on=0} on' "$here/README.md" >jobs.yaml
awk '/^```sh/ {on=1; next} /^```/ {on=0} on' "$here/README.md" | grep '^\(nohup \)\{0,1\}gpurun' >commands
[ "$(wc -l <commands)" -ge 5 ] || fail 'README.md shows fewer than 5 commands'
while IFS= read -r line; do
	cmd=$(printf '%s' "$line" | sed 's/ *#.*//')
	say "$cmd"
	case $cmd in
	*'&') sh -c "${cmd%&}" >"$tmp/out" 2>&1 </dev/null || fail "$cmd" ;;
	*'-w') timeout 3 sh -c "$cmd" >"$tmp/out" 2>&1 </dev/null || [ $? = 124 ] || fail "$cmd" ;;
	*' stop '*) sh -c "$cmd" >"$tmp/out" 2>&1 </dev/null || grep -q 'is not running' "$tmp/out" || fail "$cmd" ;;
	*) timeout 60 sh -c "$cmd" >"$tmp/out" 2>&1 </dev/null || fail "$cmd" ;;
	esac
done <commands
gpurun jobs.yaml >"$tmp/out" 2>&1 || fail 'the second run of the job file'
grep -q '7 up to date' "$tmp/out" || fail 'the second run did not print "7 up to date"'
say ok
