# The script of every job in the harness. It records its start and its end in the journal,
# with one write each. PLAN decides how it ends: the n-th attempt that ends on its own takes
# the n-th word, which is an exit status, or k to send SIGKILL to itself. If there are no
# more words, it exits with 0.
note() {
	printf '%s\n' "$EPOCHREALTIME $1 $LANE $GPURUN_JOB $GPURUN_UNI_ID $GPURUN_ATTEMPT ${GPU_LIST:--} $MEMORY $KIND $$ $2" >>"$JOURNAL"
}
trap 'note end term; exit 143' TERM
note start -
n=0
if [ -r "$COUNTS/$GPURUN_JOB" ]; then read -r n <"$COUNTS/$GPURUN_JOB"; fi
set -- $PLAN
shift "$n" || set -- 0
code=${1:-0}
case $KIND in
daemon) setsid sleep 300 </dev/null >/dev/null 2>&1 & ;;
traceless) (env -i TORTURE_MARK="$TORTURE_MARK" setsid sh -c 'cd /; exec sleep 302' </dev/null >/dev/null 2>&1 &) ;;
chain) (setsid sh "$CHAIN" "$CHAIN" 2000 </dev/null >/dev/null 2>&1 &) ;;
esac
sleep "$SLEEP" &
wait $! || [ $? = 137 ] # a test may kill the sleep
trap '' TERM
echo "$((n + 1))" >"$COUNTS/$GPURUN_JOB"
note end "$code"
if [ "$code" = k ]; then kill -KILL $$; fi
exit "$code"
