# simple_gpu_scheduler reads commands, and runs one on each GPU
n=0
for a in $(echo "$@" | tr , " "); do case $a in *[!0-9]* | "") ;; *) n=$((n + 1)) ;; esac; done
exec xargs -P $((n ? n : 1)) -d '\n' -n 1 sh -c
