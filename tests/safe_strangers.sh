#!/bin/sh
# 50 silent strangers and 50 that say rubbish at every port of a run, as soon as it listens: the same parameters. Prints
# what they cost the run in CPU time, which others at work on the machine change less than its time: the median of pairs of runs, one
# after the other. Usage: [STEPS=20] [PAIRS=3] safe_strangers.sh FORELINE; with STEPS ranks begin at once
set -u
foreline=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
here=$(cd "$(dirname "$0")" && pwd)
if [ "${IN_NAMESPACE:-}" != 1 ]; then # so that the ports are this run's alone
    IN_NAMESPACE=1 unshare -rn true 2>/dev/null || {
        echo "skipped: no network namespaces here"
        exit 77
    }
    IN_NAMESPACE=1 exec unshare -rn "$0" "$@"
fi
ip link set lo up || exit 2
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
export XDG_CACHE_HOME="$dir/cache"

fail() {
    echo "FAIL: $*"
    exit 1
}
sha() {
    grep -o '"parameters_sha256": "[0-9a-f]*"' "$1"
}

"$foreline" plan --model gpt-tiny:layers=2,hidden=32,heads=2,tokens=32 --platform laptop --algorithm balanced \
    --stages 2 --replicas 2 --microbatches 4 -o p.json >out 2>&1 || fail "plan: $(cat out)"
# Ranks that come one after the other: strangers are there before them, also on a busy machine.
printf '#!/bin/sh\nsleep 0.$((2 + 2 * RANK))\nexec "%s" "$@"\n' "$(dirname "$foreline")/foreline-worker" >worker
chmod +x worker
[ -n "${STEPS:-}" ] || export FORELINE_WORKER="$dir/worker"
pair=0
while [ $((pair += 1)) -le "${PAIRS:-3}" ]; do
    for k in alone strangers; do
        /usr/bin/python3 "$here/strangers.py" "$([ $k = alone ] && echo 0 || echo 50)" \
            timeout 60 "$foreline" run p.json --steps ${STEPS:-20} --warmup 1 --json >$k.json 2>$k.err 3>made || fail "$k: $(cat $k.err)"
        [ ! -s $k.err ] || fail "$k: $(cat $k.err)"
        read -r connections ports wall_s cpu_s <made
        echo "$k: $connections strangers at $ports ports, $wall_s s, $cpu_s s of CPU, $(grep -o '"iteration_s": [0-9.e-]*' $k.json | head -n 1) a step"
        echo "$k $cpu_s $wall_s" >>times
    done
    [ "$ports" -ge 4 ] || fail "a launcher and three ranks that wait have four ports"
    [ "$connections" -ge 300 ] || fail "too few"
    [ "$(sha alone.json)" = "$(sha strangers.json)" ] || fail "other parameters"
    [ -n "$(sha alone.json)" ] || fail "no parameters"
done
for column in 2 3; do
    awk -v c=$column '$1 == "alone" { a = $c } $1 == "strangers" { print 100 * ($c / a - 1) }' times | sort -g |
        awk -v what="$([ $column = 2 ] && echo CPU || echo wall-clock)" '{ v[NR] = $1 }
            END { printf "%s time with strangers: median of %d pairs %+.1f %% (%+.1f to %+.1f)\n", what, NR, v[int((NR + 1) / 2)], v[1], v[NR] }'
done
