#!/bin/sh
# Real runs use the collective that was chosen, or refuse: for every algorithm that the simulator
# knows and 2 to 4 replicas, the parameters have the same bits on every transport, or one line says
# what real runs can do.  Usage: exec_collective.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset RANK WORLD_SIZE FORELINE_WORKER

fail() {
    echo "FAIL: $*" >&2
    exit 1
}
tiny=gpt-tiny:layers=1,hidden=16,heads=2,tokens=16
transports="tcp local"
command -v mpirun >/dev/null && [ -x "$bin/foreline-worker-mpi" ] && transports="$transports mpi"
run() { # run OPTIONS...: the hash of the parameters; exit status of the run
    "$bin/foreline" run p.json "$@" --steps 2 --warmup 0 --json >m.json 2>run.err || return 1
    sed -n 's/.*"parameters_sha256": "\([0-9a-f]*\)".*/\1/p' m.json
}

: >p.json
"$bin/foreline" simulate p.json --collective nonsense >out 2>&1 && fail "nonsense is simulated"
names=$(sed -n 's/.*known: //p; s/.*expected //p' out | head -n 1 | tr ',' ' ' | sed 's/ or / /; s/(.*//')
case " $names " in *" ring "*) ;; *) names="auto ring tree hierarchical switch direct" ;; esac
done= can=
for replicas in 2 3 4; do
    "$bin/foreline" plan --algorithm balanced --model $tiny --platform laptop --microbatches 12 \
        --stages 1 --replicas $replicas -o p.json >out 2>&1 || fail "plan: $(cat out)"
    for name in $names; do
        expected=
        for transport in $transports; do
            if hash=$(run --collective "$name" --transport $transport); then
                [ ${#hash} = 64 ] && [ "${expected:=$hash}" = "$hash" ] ||
                    fail "$name, $replicas replicas, $transport: $hash, not $expected"
                case " $done " in *" $name "*) ;; *) done="$done $name" ;; esac
            else
                [ "$(wc -l <run.err)" = 1 ] && grep -q "real runs support auto, ring, tree" run.err &&
                    can=$(sed 's/.*real runs support//; s/,//g' run.err) ||
                    fail "$name, $replicas replicas, $transport: $(cat run.err)"
            fi
        done
        [ "$name" = ring ] && [ "$expected" = "$(run)" ] || [ "$name" != ring ] ||
            fail "without --collective it is no ring"
    done
done
sorted() {
    printf '%s\n' "$@" | sort
}
[ "$(sorted $done)" = "$(sorted ${can:-$done})" ] || fail "real runs did$done, they say that they can do$can"

# Sharded optimizers: the reduce-scatters and all-gathers that a tree does not serve are the ring's.
"$bin/foreline" plan --algorithm balanced --model $tiny --platform laptop --microbatches 12 \
    --stages 1 --replicas 3 --zero 2 -o p.json >out 2>&1 || fail "plan --zero 2: $(cat out)"
[ "$(run --collective tree)" = "$(run)" ] || fail "--zero 2: $(cat run.err)"
# Every replica tells its own loss, their mean is the step's: the first of two is that of a run with the first
# of its microbatches alone, as long as nothing was learned.
losses() { # losses REPLICAS MICROBATCHES: of the first step, that of all and those of the ranks
    "$bin/foreline" plan --algorithm balanced --model $tiny --platform laptop --microbatches "$2" --stages 1 \
        --replicas "$1" -o p.json >out 2>&1 || fail "plan: $(cat out)"
    "$bin/foreline" run p.json --steps 2 --warmup 0 --transport local -o m.json >out 2>&1 || fail "run: $(cat out)"
    sed -n 's/^  "loss": \[\([^,]*\),.*/\1/p; s/.*"loss": \[\([^,]*\),.*\]}.*/rank \1/p' m.json |
        sort -s -k 1,1r | awk '$1 != "rank" { all = $1 } $1 == "rank" { of = of " " $2 } END { print all of }'
}
set -- $(losses 1 1)
one=$1
[ $# = 2 ] && [ "$1" = "$2" ] || fail "one rank: $*"
set -- $(losses 2 2)
[ $# = 3 ] && [ "$2" != "$3" ] && awk "BEGIN { exit !(($2 + $3) / 2 - $1 < 1e-12 && $1 - ($2 + $3) / 2 < 1e-12 && \
    ($2 / $one - 1) ^ 2 < 1e-14) }" || fail "two ranks: $*, one alone: $one"
sed 's/, "loss": \[[^]]*\]}/}/' m.json >old.json
"$bin/foreline" simulate p.json --engine analytic --json >s.json 2>out || fail "simulate: $(cat out)"
"$bin/foreline" compare s.json old.json >out 2>&1 || fail "without losses of ranks: $(cat out)"
cmp -s m.json old.json && fail "ranks have no losses"
echo "algorithms of real runs:$done, on $transports"
