# ts (tsp) queues a command: it starts after the last one, unless there are several slots
home=${GPURUN_CAPTURE:-/dev/gpurun-capture}
slots=${TS_SLOTS:-1} after= asks= gpus= wait= last=
[ ! -r "$home/slots" ] || read -r slots <"$home/slots"
[ ! -r "$home/last" ] || read -r last <"$home/last"
while [ $# -gt 0 ]; do
  case $1 in
    -S) [ "$2" ] && echo "$2" >"$home/slots" || echo "$slots"; exit ;;
    -w) exec "$home/bin/gpurun-wait" "${2:-$last}" ;;
    -D | -W) after=$2; shift ;;
    -G) gpus=$2; shift ;;
    -L | -N | -O) shift ;;
    -d) after=$last ;;
    -f | -nf | -fn) wait=1 ;;
    -[lKCVhqtcpoisrkTuU]*) exit ;;
    -*) ;;
    *) break ;;
  esac
  shift
done
case $1 in "" | *%*) exec cat ;; esac # without a command, or with a format, ts is a filter that adds times
explicit=$after
[ "$slots" = 1 ] && after=$after,$last || asks="max_concurrent: $slots"
case $gpus in *[!0-9]* | "" | 0 | 1) ;; *) asks="$asks${asks:+
}gpus: $gpus" ;; esac
last=$(GPURUN_CAPTURE_ASKS=$asks GPURUN_CAPTURE_AFTER=$explicit "$home/bin/gpurun-submit" "$after" "" "$@")
echo "$last" | tee "$home/last"
[ -z "$wait" ] || "$home/bin/gpurun-wait" "$last"
