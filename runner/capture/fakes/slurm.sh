# sbatch submits its script, once for each index of an array; srun and salloc run their command in place
set -f
command=${0##*/}
if [ "$command" = scontrol ]; then
  case $1\ $2 in show\ hostname*) echo "${3:-${SLURM_JOB_NODELIST:-localhost}}" | tr , '\n' ;; esac
  exit
fi
option() {
  case $1 in
    --array | -a) array=$2 ;;
    --chdir | -D) dir=$2 ;;
    --cpus-per-task | -c) cpus=$2 ;;
    --dependency | -d) after=$2 ;;
    --export) export=$2 ;;
    --gpus | -G | --gpus-per-node | --gpus-per-task) devices "$2" ;;
    --gres) for g in $(echo "$2" | tr , ' '); do case $g in gpu) devices 1 ;; gpu:*) devices "${g#gpu:}" ;; esac; done ;;
    --job-name | -J) name=$2 ;;
    --mem) mem=$2 ;;
    --parsable) parsable=1 ;;
    --wait | -W) wait=1 ;;
    --time | -t) time=$2 ;;
    --wrap) wrap=$2 ;;
  esac
}
devices() { # 2, a100 or a100:2
  gpus=${1##*:} model=${1%:*}
  case $gpus in *[!0-9]*) gpus=1 model=$1 ;; "$1") model= ;; esac
}
options() { # sets left to the number of words after the options
  while [ $# -gt 0 ]; do
    case $1 in
      --*=*) option "${1%%=*}" "${1#*=}" ;;
      --parsable | --exclusive | --requeue | --no-requeue | --wait | --hold | --overlap | --exact | --unbuffered | --pty | --verbose | --quiet | --test-only | --label | --no-kill) option "$1" ;;
      --* | -[aJoeptnNcGAdDwxqC]) option "$1" "$2"; [ $# = 1 ] || shift ;;
      -[aJoeptnNcGAdDwxqC]*) value=${1#-?}; option "${1%"$value"}" "${value#=}" ;;
      -*) option "$1" ;;
      *) break ;;
    esac
    shift
  done
  left=$#
}
array= dir=. cpus= after= export= gpus= model= name= mem= parsable= time= wait= wrap=
options "$@"
skip=$(($# - left))
if [ "$command" = sbatch ] && [ -z "$wrap" ]; then
  script=$(shift $skip; echo "$1")
  [ "$script" ] || { script=${GPURUN_CAPTURE:-/dev/gpurun-capture}/script$$ && cat >"$script" && set -- "$@" "$script"; }
  [ -r "$script" ] || { echo "sbatch: error: cannot read the script: $script" >&2; exit 1; }
  options $(sed -n 's/^#SBATCH[[:space:]]*//p' "$script" | sed "s/[[:space:]]#.*//; s/[\"']//g")
  options "$@" # these override the script's
fi
shift $skip

nl='
'
asks=
ask() { asks="$asks${asks:+$nl}$1"; }
inherited=
[ "$command" = sbatch ] || inherited=$GPURUN_CAPTURE_ASKS # a step has its job's resources, except for those that it sets
case $gpus in *[!0-9]* | "") ;; 1) [ -z "$inherited" ] || ask "gpus: 1" ;; *) ask "gpus: $gpus" ;; esac
[ -z "$model" ] || ask "gpu_model: $model"
mem=$(echo "$mem" | tr a-z A-Z | sed -n 's/B$//; s/[0-9]$/&M/; s/^[1-9][0-9]*[KMGT]$/memory: &iB/p')
[ -z "$mem" ] || { ask "$mem"; ask "share: false"; } # whole GPUs
case $cpus in *[!0-9]* | "" | 0) ;; *) ask "cpus: $cpus" ;; esac
minutes=$(echo "$time" | awk -F: '{ if (split($1, d, "-") > 1) print d[1] * 1440 + d[2] * 60 + $2; else print NF == 3 ? $1 * 60 + $2 : $1 + 0 }')
case $minutes in *[!0-9]* | "" | 0) ;; *) ask "timeout: ${minutes}m" ;; esac
if [ "$command" != sbatch ]; then
  [ $# -gt 0 ] || set -- sh
  own=$asks asks=
  IFS=$nl
  for key in $inherited; do case $nl$own in *"$nl${key%%:*}: "*) ;; *) ask "$key" ;; esac; done
  for key in $own; do ask "$key"; done
  unset IFS
  [ -z "$asks" ] || export GPURUN_CAPTURE_ASKS="$asks"
  exec "$@"
fi

case $array in *%*) ask "max_concurrent: ${array##*%}" ;; esac
[ -z "$wrap" ] || set -- sh -c "$wrap"
[ "$wrap" ] || case $(head -n 1 "$1") in "#!"*) set -- $(sed -n '1s/^#!//p' "$1") "$@" ;; *) set -- bash "$@" ;; esac
export GPURUN_CAPTURE_ASKS="$asks" GPURUN_CAPTURE_AFTER="$after" SLURM_JOB_NAME="$name" SLURM_NTASKS=1 SLURM_CPUS_PER_TASK="$cpus" SLURM_JOB_NODELIST=localhost SLURM_NNODES=1 SLURM_SUBMIT_DIR="$PWD"
IFS=,
for kv in $export; do case $kv in *=*) export "$kv" ;; esac; done
unset IFS
cd "$dir" || exit 1
indexes=$(echo "${array%%%*}" | awk -F, '{ for (i = 1; i <= NF; i++) { split($i, p, ":"); n = split(p[1], r, "-"); for (k = r[1] + 0; k <= (n > 1 ? r[2] : r[1]) + 0; k += p[2] ? p[2] : 1) print k } }')
[ -z "$indexes" ] || export SLURM_ARRAY_TASK_COUNT=$(set -- $indexes; echo $#)
id=$("${GPURUN_CAPTURE:-/dev/gpurun-capture}/bin/gpurun-submit" "$after" "$indexes" "$@")
[ -z "$wait" ] || "${GPURUN_CAPTURE:-/dev/gpurun-capture}/bin/gpurun-wait" "$id"
[ "$parsable" ] && echo "$id" || echo "Submitted batch job $id"
