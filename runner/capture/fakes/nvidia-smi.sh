# nvidia-smi on a host with idle GPUs: -L, --query-gpu or the table
name="NVIDIA A100-SXM4-80GB" mib=" MiB" percent=" %" watt=" W" n=$GPURUN_CAPTURE_GPUS
query= format= ids= list= last=
for a; do
  case $a in
    --query-compute-apps*) exit ;;
    --query-gpu=*) query=${a#*=} ;;
    --format=*) format=${a#*=} ;;
    -i=* | --id=*) ids=${a#*=} ;;
    -L | --list-gpus) list=1 ;;
    *) case $last in --query-gpu) query=$a ;; --format) format=$a ;; -i | --id) ids=$a ;; esac ;;
  esac
  last=$a
done
i=0
[ "$ids" ] || while [ $i -lt $n ]; do ids=$ids,$i i=$((i + 1)); done
IFS=,
row() {
  out=
  for v; do out="$out, ${v# }"; done
  echo "${out#, }"
}
rule="+-----------------------------------------+------------------------+----------------------+"
case $format in *nounits*) mib= percent= watt= ;; esac
case $query:$list:$format in
  ::*) printf '%s\n' $rule "| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |" $rule ;;
  *::*noheader* | *:1:*) ;;
  *) row $query ;;
esac
for id in ${ids#,}; do
  if [ "$list" ]; then
    echo "GPU $id: $name (UUID: GPU-$id)"
  elif [ "$query" ]; then
    set --
    for f in $query; do
      case ${f# } in
        index) v=$id ;;
        count) v=$n ;;
        name | gpu_name) v=$name ;;
        uuid | gpu_uuid) v=GPU-$id ;;
        memory.total | memory.free) v=81920$mib ;;
        memory.*) v=0$mib ;;
        utilization.*) v=0$percent ;;
        power.*) v=60$watt ;;
        *) v=0 ;;
      esac
      set -- "$@" "$v"
    done
    row "$@"
  else
    printf '| %3s  NVIDIA A100-SXM4-80GB          On  |   00000000:0%s:00.0 Off |                    0 |\n' $id $id
    printf '%s\n' "| N/A   30C    P0             60W /  400W |       0MiB /  81920MiB |      0%      Default |" $rule
  fi
done
case $query:$list in :) printf '%s\n' "| Processes:                                                                              |" "|  No running processes found                                                             |" $rule ;; esac
