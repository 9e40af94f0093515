#!/usr/bin/env bash
# notes.sh TAG CHANGELOG prints the changelog's section of a version, or fails if there is none or it is empty.
set -euo pipefail
section=$(awk -v want="## [${1#v}]" 'index($0, "## [") == 1 {on = index($0, want) == 1; next} on' "$2")
[[ $section =~ [^[:space:]] ]] || { echo "notes.sh: no section ${1#v} in $2 (add \"## [${1#v}] - $(date +%F)\")" >&2; exit 1; }
sed -e '/./,$!d' <<<"$section"
