#!/bin/sh
# A script of the kind that block files call: it puts its real work into the
# background, exits at once with 0, and reports through logs/uni_id.json how the
# work ended. gpurun waits for the work, and goes by the report.
#
#   sh pipeline.sh DATASET --uni_id ID [flags of train.sh]
set -eu

here=$(cd "$(dirname "$0")" && pwd)
dataset=$1 id=$3
shift 3

# report STATE: writes this attempt's state into the file that all pipelines share.
# It is replaced by rename, so that nobody reads half of it; the folder makes
# pipelines that end together do so one after another.
report() {
	file=$here/logs/uni_id.json
	mkdir -p "$here/logs"
	tries=0
	until mkdir "$file.lock" 2>/dev/null; do
		tries=$((tries + 1))
		[ "$tries" -lt 10 ] || break # whoever made it was killed
		sleep 1
	done
	entry="\"$id\": {\"pid\": $$, \"state\": \"$1\"}"
	if [ -s "$file" ]; then
		# An entry for the same ID further down counts instead of the one above.
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
echo "pipeline for $dataset: works on in the background as $!"
