#!/bin/sh
# Checks the spelling of the pages and of the help of every command with aspell. docs/words.txt lists additional words.
# Names from code, such as AttemptRow, are skipped.
set -eu
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# Skip code, links and HTML.
cat README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md $(find docs -name '*.md') |
	sed -E '/^ *```/,/^ *```/d; s/`[^`]*`/ /g; s/\]\([^)]*\)/ /g; s/<[^>]*>/ /g; s,https?://[^ )]*, ,g' >"$tmp/text"
for c in $(bin/gpurun --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p'); do bin/gpurun "$c" --help; done |
	sed -E '/^    /d; s/^ +-[^ ].*  +//; s/\$?[A-Z_]{3,}//g' >>"$tmp/text"
aspell --lang=en_US --encoding=utf-8 --mode=none --ignore=2 list <"$tmp/text" | grep -v "[a-z][A-Z]" | LC_ALL=C sort -u >"$tmp/unknown"
LC_ALL=C comm -23 "$tmp/unknown" docs/words.txt >"$tmp/new"
[ ! -s "$tmp/new" ] || { echo 'not in the dictionary (misspelled, or missing in docs/words.txt):'; cat "$tmp/new"; exit 1; }
