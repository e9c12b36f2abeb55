#!/bin/sh
# Strategies of shards from the command line: the losses of one process on 2 and 4 ranks, in halves and
# whole, the same parameters over every transport, and ten steps are five and five more from a checkpoint.
# Usage: exec_strategies.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
tool=$bin/foreline
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset RANK WORLD_SIZE FORELINE_WORKER

fail() {
    echo "FAIL: $*" >&2
    exit 1
}
plan() { # plan MODEL DEVICES OVERLAP: p.json
    "$tool" plan --algorithm spmd --model "$1" --devices $2 --overlap $3 --platform node:gpus=4 \
        -o p.json >plan.out 2>&1 || fail "plan $*: $(cat plan.out)"
}
run() { # run OPTIONS...: the hash of the parameters
    "$tool" run p.json "$@" --warmup 0 --json >m.json 2>run.err || fail "run $*: $(cat run.err)"
    sed -n 's/.*"parameters_sha256": "\([0-9a-f]*\)".*/\1/p' m.json
}
losses() { # of the last run, a line each
    sed -n 's/^  "loss": \[\(.*\)\].*/\1/p' m.json | tr -d ' ' | tr , '\n'
}
near() { # near FILE FILE: losses fall, and differ by less than 1e-5 of the largest
    paste "$1" "$2" | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d; last = $1
        a = $1 < 0 ? -$1 : $1; if (a > most) most = a }
        NR == 1 { first = $1 } END { exit !(NR == 10 && last < first && worst < 1e-5 * most) }'
}
transports="local tcp"
if command -v mpirun >/dev/null && [ -x "$bin/foreline-worker-mpi" ]; then
    transports="local tcp mpi"
fi
for model in tmlp:layers=3,batch=8,seq=4,hidden=32 \
    tmoe:layers=2,batch=8,seq=8,hidden=32,inner=64,heads=4,experts=4 \
    rmoe:ops=1,layers=2,batch=8,seq=8,hidden=32,inner=64,heads=4,experts=4,classes=256; do
    plan $model 1 none
    run --steps 10 --transport local >/dev/null
    losses >one
    for shape in "2 full" "4 none" "4 full"; do
        plan $model $shape
        first=
        over=local
        [ "$shape" != "4 full" ] || over=$transports
        for transport in $over; do
            hash=$(run --steps 10 --transport $transport)
            losses >other
            near one other || fail "$model $shape, $transport: losses $(paste one other)"
            [ "${first:=$hash}" = "$hash" ] || fail "$model $shape: $transport $hash, not $first"
        done
    done
    run --steps 5 --transport local --checkpoint half >/dev/null
    [ "$(run --steps 5 --transport local --resume half)" = "$first" ] || fail "5 + 5 steps are not 10"
    rm -rf half
done

# Heads are whole: what does not divide over them is planned otherwise and runs, or is refused with what it is.
shape=layers=2,batch=8,seq=8,hidden=32,inner=64,experts=4
plan tmoe:heads=4,$shape 3 full
run --steps 1 --transport local >/dev/null
refused() { # refused TEXT OPTIONS...
    text=$1
    shift
    status=0
    "$tool" plan --algorithm spmd --platform node:gpus=4 "$@" -o none.json >out 2>err || status=$?
    [ $status = 1 ] && [ "$(wc -l <err)" = 1 ] && grep -q "$text" err && [ ! -e none.json ] ||
        fail "plan $*: exit $status, $(cat err)"
}
refused "'h0.attention': 4 heads do not divide over 3 devices" --model tmoe:heads=4,$shape --devices 3 \
    --hint h0.attention=reduce
refused "node 'h0.attention': 4 heads do not divide the 33 channels" --model tmoe:heads=4,$shape,hidden=33 --devices 2
refused "'h1.gate'.*2.*experts.*1" --model tmoe:heads=4,$shape,experts=1
# What has no numerics in strategies is planned with a line that says so, paced, and refused where numbers are wanted.
paced() { # paced TEXT OVERRIDE
    plan rmoe:ops=1,layers=1,$shape,heads=4,$2 2 none
    grep -q "^warning: foreline run cannot compute op .* uses --compute paced (.*$1" plan.out || fail "plan with $2: $(cat plan.out)"
    run --steps 1 --transport local >/dev/null
    grep -q "using --compute paced (.*$1" run.err && grep -q '"engine": "local-paced"' m.json || fail "run with $2: $(cat run.err)"
    status=0
    "$tool" run p.json --transport local --compute real >out 2>err || status=$?
    [ $status = 2 ] && grep -q "$1" err || fail "run --compute real with $2: exit $status, $(cat err)"
}
paced 'texts need a vocabulary of 256 .*classes=100' classes=100
paced 'plans with .steps.*fp32.*fp16' classes=256,dtype=fp16
paced 'plans with .steps.*fp32.*bf16' classes=256,dtype=bf16
plan rmoe:ops=1,layers=1,$shape,heads=4,classes=256 2 none
! grep -q 'uses --compute paced' plan.out || fail "plan: $(cat plan.out)"
echo "trained over $transports"
