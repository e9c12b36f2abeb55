#!/bin/sh
# Training in bf16 and fp16 on CPUs: half the bytes of fp32 between stages, losses near those in fp32 but not the same, the
# same bits however the model is cut and over every transport, and from checkpoints, whose parameters are fp32.
# Usage: exec_half.sh DIRECTORY_OF_BINARIES MODELS
set -eu
bin=$(cd "$1" && pwd)
models=$(cd "$2" && pwd)
tool=$bin/foreline
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset RANK WORLD_SIZE FORELINE_WORKER

fail() {
    echo "FAIL: $*" >&2
    exit 1
}
plan() { # plan MODEL OPTIONS...: p.json
    model=$1
    shift
    "$tool" plan --algorithm balanced --model "$model" --platform node:gpus=4 --microbatches 4 --microbatch-size 2 "$@" \
        -o p.json >plan.out 2>&1 || fail "plan $model $*: $(cat plan.out)"
}
run() { # run OPTIONS...: m.json, and the hash of the parameters
    "$tool" run p.json --warmup 0 "$@" --json >m.json 2>run.err || fail "run $*: $(cat run.err)"
    sed -n 's/.*"parameters_sha256": "\([0-9a-f]*\)".*/\1/p' m.json
}
losses() { # of the last run, a line each
    sed -n 's/^  "loss": \[\(.*\)\].*/\1/p' m.json | tr -d ' ' | tr , '\n'
}
sent() { # bytes of all links of the last run
    grep -o '"bytes": [0-9]*' m.json | awk '{ n += $2 } END { print n + 0 }'
}
near() { # near LIMIT: the losses in `wanted` and those of the last run differ by less of them, but do differ
    losses | paste wanted - | awk -v most="$1" '{ d = ($1 - $2) / $1; d = d < 0 ? -d : d; if (d > worst) worst = d }
        END { exit !(NR >= 4 && worst > 1e-7 && worst < most) }'
}

gpt=gpt-tiny:layers=2,hidden=64,heads=4,tokens=32
plan $gpt --stages 2
run --steps 8 >/dev/null
losses >wanted
whole=$(sent)
plan $gpt,dtype=bf16 --stages 2
first=$(run --steps 8)
near 1e-3 || fail "bf16: $(losses | paste wanted -)"
[ "$whole" -gt 0 ] && [ $((2 * $(sent))) = "$whole" ] || fail "bytes in bf16 $(sent), in fp32 $whole"
same() { # same WHAT OPTIONS...
    what=$1
    shift
    hash=$(run "$@")
    [ "$hash" = "$first" ] || fail "$what: parameters $hash, not $first"
}
same local --steps 8 --transport local --dtype bf16
if command -v mpirun >/dev/null && [ -x "$bin/foreline-worker-mpi" ]; then
    same mpi --steps 8 --transport mpi
fi
run --steps 5 --checkpoint half >/dev/null
same "5 + 3 steps" --steps 3 --resume half
for shape in "--stages 1" "--stages 4 --schedule gpipe" "--stages 2 --recompute full" \
    "--stages 2 --schedule zb-h1"; do
    plan $gpt,dtype=bf16 $shape
    same "$shape" --steps 8 --transport local
done
# Gradients are summed in bf16 or fp32; what shards share is summed, and parameters are gathered, in bf16.
for shape in "--stages 1 --tensor-parallel 2" "--stages 1 --tensor-parallel 2 --replicas 2 --reduce-dtype fp32" \
    "--stages 2 --tensor-parallel 2 --sequence-parallel" \
    "--stages 1 --tensor-parallel 2 --sequence-parallel --replicas 2 --reduce-dtype fp32" "--stages 2 --replicas 2" \
    "--stages 2 --replicas 2 --reduce-dtype fp32" "--stages 1 --replicas 4 --zero 1" "--stages 1 --replicas 4 --zero 3"; do
    plan $gpt,dtype=bf16 $shape
    run --steps 8 --transport local >/dev/null
    near 1e-3 || fail "$shape: $(losses | paste wanted -)"
done
for family in llama mixtral; do
    plan "$models/$family.json" --stages 2
    run --steps 6 --transport local >/dev/null
    losses >wanted
    plan "$models/$family.json:dtype=bf16" --stages 2
    run --steps 6 --transport local >/dev/null
    near 1e-2 || fail "$family: $(losses | paste wanted -)"
done

# fp16 has no small gradients: those of a loss that is scaled down too far are not there, up they all are.
plan $gpt --stages 2 --replicas 2
run --steps 8 --transport local >/dev/null
losses >wanted
for scale in 1 1024 1e-6; do
    plan $gpt,dtype=fp16 --stages 2 --replicas 2 --optimizer adam:loss-scale=$scale
    run --steps 8 >/dev/null
    if [ $scale = 1e-6 ]; then
        ! near 1e-2 || fail "fp16, no gradients: $(losses | paste wanted -)"
    else
        near 1e-4 || fail "fp16, loss scale $scale: $(losses | paste wanted -)"
    fi
done

# What would be carried in fp32 is refused.
plan $gpt,dtype=bf16 --stages 1 --replicas 2 --context-parallel 2
status=0
"$tool" run p.json --steps 1 --transport local >out 2>err || status=$?
[ $status = 1 ] && grep -q 'fp32 only; plan the model with dtype=fp32' err ||
    fail "sequences that replicas share: exit $status, $(cat err)"
