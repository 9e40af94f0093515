#!/bin/sh
# A typical script for block files: it puts its real work in the background, exits 0
# at once, and reports through logs/uni_id.json how the work ended. gpurun waits for
# the work and uses the report.
#
#   sh pipeline.sh DATASET --uni_id ID [flags of train.sh]
set -eu

here=$(cd "$(dirname "$0")" && pwd)
dataset=$1 id=$3
shift 3

# report STATE: writes this attempt's state to the file that all pipelines share. The
# file is replaced by rename, so that nobody reads half of it. The lock folder
# serializes pipelines that end at the same time.
report() {
	file=$here/logs/uni_id.json
	mkdir -p "$here/logs"
	tries=0
	until mkdir "$file.lock" 2>/dev/null; do
		tries=$((tries + 1))
		[ "$tries" -lt 10 ] || break # its owner was killed
		sleep 1
	done
	entry="\"$id\": {\"pid\": $$, \"state\": \"$1\"}"
	if [ -s "$file" ]; then
		# If an ID occurs twice, the later entry counts.
		{ sed '$ s/}[[:space:]]*$//' "$file"; echo ", $entry}"; } >"$file.$$"
	else
		echo "{$entry}" >"$file.$$"
	fi
	mv "$file.$$" "$file"
	rmdir "$file.lock" 2>/dev/null || :
}

work() {
	if sh "$here/train.sh" --dataset "$dataset" "$@"; then
		report normal_exit
	else
		report abnormal_exit
	fi
}

work "$@" &
echo "pipeline for $dataset: continues in the background as $!"
