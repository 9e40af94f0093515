# A process that starts the next one in a session of its own, and ends; so many in all.
trap '' TERM
[ "$2" -gt 0 ] && setsid sh "$1" "$1" $(($2 - 1)) &
