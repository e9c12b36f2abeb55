#!/bin/sh
# Configurations of today's models train: the same losses on 1, 2 and 4 ranks, the same parameters over
# every transport, and five steps and five more from a checkpoint are ten; what has no numerics is one
# line that names op and kind.
# Usage: exec_today.sh DIRECTORY_OF_BINARIES DIRECTORY_OF_MODELS
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
more='' # of the model's options
plan() { # plan MODEL OPTIONS...: p.json
    name=$1
    shift
    "$tool" plan --algorithm balanced --model "$models/$name.json:tokens=32$more" --platform laptop \
        --microbatches 8 "$@" -o p.json >plan.out 2>&1 || fail "plan $name $*: $(cat plan.out)"
}
run() { # run OPTIONS...: the hash of the parameters
    "$tool" run p.json "$@" --warmup 0 --json >m.json 2>run.err || fail "run $*: $(cat run.err)"
    sed -n 's/.*"parameters_sha256": "\([0-9a-f]*\)".*/\1/p' m.json
}
losses() { # of the last run, a line each
    sed -n 's/^  "loss": \[\(.*\)\].*/\1/p' m.json | tr -d ' ' | tr , '\n'
}
near() { # near FILE FILE: losses fall, and differ by less than 1e-5
    paste "$1" "$2" | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d; last = $1 }
        NR == 1 { first = $1 } END { exit !(NR == 10 && last < first && worst < 1e-5) }'
}
transports="local tcp"
if command -v mpirun >/dev/null && [ -x "$bin/foreline-worker-mpi" ]; then
    transports="local tcp mpi"
fi
for name in llama mixtral deepseek qwen3_moe gemma2 deepseek_v3 gpt_oss qwen2_moe; do
    plan $name --stages 1
    run --steps 10 --transport local >/dev/null
    losses >one
    for shape in "--stages 2" "--stages 4 --schedule gpipe" "--stages 2 --replicas 2" \
        "--stages 1 --replicas 4 --zero 3" "--stages 1 --tensor-parallel 2" \
        "--stages 1 --replicas 2 --tensor-parallel 2 --sequence-parallel --zero 3" \
        "--stages 2 --tensor-parallel 2 --sequence-parallel --schedule zb-h1" \
        "--stages 2 --tensor-parallel 2 --p2p-scatter" \
        "--stages 2 --replicas 2 --expert-parallel 2" "--stages 1 --replicas 4 --expert-parallel 4" \
        "--stages 1 --replicas 4 --expert-parallel 2 --zero 3"; do
        case "$name $shape" in
        llama*expert* | gemma2*expert*) continue ;; # no experts
        qwen3_moe*tensor*) continue ;;              # norms of heads are not divided
        esac
        plan $name $shape
        first=
        over=local
        case "$shape" in
        *"--stages 2 --replicas 2"* | *scatter | *zb-h1 | *"--zero 3") over=$transports ;;
        esac
        for transport in $over; do
            hash=$(run --steps 10 --transport $transport)
            losses >other
            near one other || fail "$name $shape, $transport: losses $(paste one other)"
            [ "${first:=$hash}" = "$hash" ] || fail "$name $shape: $transport $hash, not $first"
        done
    done
done

# layers that share their parameters, and a head of classes behind a pooler
for name in albert albert_groups bert_classes; do
    plan $name --stages 1
    run --steps 10 --transport local >/dev/null
    losses >one
    for stages in 2 4; do
        plan $name --stages $stages
        for transport in $transports; do
            run --steps 10 --transport $transport >/dev/null
            losses >other
            near one other || fail "$name, $stages stages, $transport: losses $(paste one other)"
        done
    done
done

plan mixtral --stages 1 --replicas 4 --expert-parallel 2
ten=$(run --steps 10 --transport local)
run --steps 5 --transport local --checkpoint half >/dev/null
[ "$(run --steps 5 --transport tcp --resume half)" = "$ten" ] || fail "5 + 5 steps are not 10"

refused() { # refused STATUS TEXT: a run of p.json says it, in one line
    status=0
    "$tool" run p.json --compute real --steps 1 --warmup 0 >run.out 2>run.err || status=$?
    [ $status = $1 ] && [ "$(grep -c . run.err)" = 1 ] && grep -q "$2" run.err ||
        fail "expected '$2': exit $status, $(cat run.err)"
}
auto() { # auto OPTIONS...: what --executable finds, into auto.out, and p.json
    "$tool" plan --algorithm auto --executable --model "$found" --platform laptop --batch 8 "$@" -o p.json >auto.out 2>&1
}
found=$models/mixtral.json:tokens=32
for given in "--zero 3" "--tensor-parallel 2 --sequence-parallel" "--expert-parallel 2" "--expert-parallel 2 --zero 2" \
    "--context-parallel 2" "--expert-parallel 2 --tensor-parallel 2 --sequence-parallel" "--schedule pipedream --stages 2"; do
    auto $given || fail "auto $given: $(cat auto.out)"
    run --steps 1 --transport local >/dev/null
done
! auto --expert-parallel 2 --schedule pipedream && grep -q "no plan of" auto.out || fail "pipedream: $(cat auto.out)"
found=$found,capacity=125
while IFS='|' read -r given why; do
    ! auto $given && grep -q "$why" auto.out || fail "dropping, auto $given: $(cat auto.out)"
done <<EOF
--context-parallel 2 --tensor-parallel 1|no plan of
--expert-parallel 2 --tensor-parallel 2 --sequence-parallel|does not support: op .*drop
EOF
found=$models/xlnet.json:tokens=32
auto && run --steps 1 --transport local >/dev/null
while IFS='|' read -r found given why; do
    ! auto $given && grep -q "does not support: op .*$why" auto.out || fail "$found, auto $given: $(cat auto.out)"
done <<EOF
$models/xlnet.json:tokens=32|--tensor-parallel 2|cannot be divided over 2 shards
$models/xlnet.json:tokens=32|--context-parallel 2|does not support context parallelism
$models/albert.json:tokens=32|--tensor-parallel 2 --sequence-parallel|an undivided op
gpt-tiny:dtype=bf16|--context-parallel 2|fp32 only
EOF

more=,capacity=125
plan mixtral --stages 1 --replicas 2 --expert-parallel 2 --tensor-parallel 2 --sequence-parallel
refused 1 "sequence.*parallelism"
more=''
printf '{"model_type": "t5", "d_model": 32, "num_layers": 1, "num_heads": 2, "d_kv": 16, "d_ff": 64, "vocab_size": 256}' >t5.json
models=$work
plan t5 --stages 1
refused 2 "'e0.attn'.*'attention'.*CPU.*--compute.*paced"
printf '{"model_type": "fnet", "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64, "vocab_size": 256}' >fnet.json
plan fnet --stages 1
refused 2 "'h0.fourier'.*'fourier'.*CPU.*--compute.*paced"
"$tool" run p.json --steps 1 --warmup 0 >run.out 2>run.err || fail "fnet, paced: $(cat run.err)"
grep -q "using --compute paced (op 'h0.fourier" run.err && grep -q '^engine *tcp-paced' run.out ||
    fail "fnet, paced: $(cat run.err run.out)"
echo "trained over $transports"
