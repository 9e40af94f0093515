# What the pages call python: it writes down its arguments, and does what the scripts on the pages would.
printf '%s' "${1##*/}" >"argv.$$"
script=$1
shift
[ $# = 0 ] || printf '|%s' "$@" >>"argv.$$"
echo >>"argv.$$"
cat "argv.$$" >>argv && rm "argv.$$"
seed=1
what=$(printf %s "$*" | sed "s/[^ ]*seed.*//" | cksum)
while [ $# -gt 0 ]; do
	case $1 in
	--out | --ckpt) mkdir -p "$(dirname "$2")" && : >"$2" ;;
	--seed) seed=$2 ;;
	esac
	shift
done
sleep 0.3
while [ -e "$HOME/hold" ]; do sleep 0.1; done
case $script in
*crash.py)
	echo 'Traceback (most recent call last):'
	echo '  File "crash.py", line 3, in <module>'
	echo "ValueError: the loss is not a number"
	exit 1
	;;
esac
echo "acc = 0.$((70 + ${what%% *} % 29))$seed"
