#!/bin/sh
# Plans of a small GPT on the double, over nccl (NCCL's collectives, and rings of sends), tcp and local: each ends,
# without a race, a device-wide wait or an allocation inside a step; the losses are the CPU's within 1e-5, and the
# parameters the same bits over all transports whose sums have the ring's order.
#   matrix.sh DIRECTORY_OF_BINARIES          a bounded part, in ./check
#   matrix.sh DIRECTORY_OF_BINARIES exchanges  what replicas exchange all-to-all: two plans of it
#   matrix.sh DIRECTORY_OF_BINARIES all [PART OF]  every schedule, stages, replicas, shards, ZeRO, buckets: 2 to 8 ranks
#   matrix.sh DIRECTORY_OF_BINARIES soak [SEEDS]   a dozen plans with 100 seeds: order of streams, delays, late NCCL
set -eu
bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
mode=${2:-some}
. "$here/common.sh"
platform=hidup-8xv100
patience=60 silence=20s
export DOUBLE_RACES=1
failures=0 runs=0

fail() {
    echo "FAIL $*" | cut -c 1-400
    failures=$((failures + 1))
}
# once NAME DEVICE TRANSPORT OPTIONS...: run p.json; losses to NAME.losses, hash to NAME.hash
once() {
    name=$1
    shift
    runs=$((runs + 1))
    : >"$name.hash"
    if ! run "$@"; then
        fail "$options over $name, seed ${DOUBLE_SEED:-none}: $(why)"
        return 1
    fi
    losses >"$name.losses"
    hash_of >"$name.hash"
}
near() { # near NAME: losses as the CPU's; bf16 is compared with tcp's
    paste cpu.losses "$1.losses" | awk -v most="$tolerance" '
        { d = $1 - $2; if (d < 0) d = -d; if (d > most || $2 == "") bad = 1; n++ } END { exit bad || n < 3 }' ||
        fail "$options over $1: losses differ: $(paste cpu.losses "$1.losses" | tr '\t\n' ' ;')"
}
same() { # same NAME: the bits of tcp
    cmp -s tcp.hash "$1.hash" || fail "$options over $1: other parameters than over tcp"
}
# try PLAN: all that a plan must show; where the CPU cannot run it, neither can we
try() {
    options=$*
    dtype=fp32
    case " $options " in *" --half "*) dtype=bf16 ;; esac
    # shellcheck disable=SC2046 # words
    plan $(echo " $options " | sed 's/ --half / /') || {
        [ "$mode" = all ] || fail "$options: $(tail -n 1 plan.out)"
        return 0
    }
    if [ $dtype = fp32 ]; then
        tolerance=1e-5
        run cpu tcp && losses >cpu.losses || {
            [ "$mode" = all ] || fail "$options on the CPU: $(why)"
            return 0
        }
        once tcp cuda tcp && near tcp || return 0
    else
        tolerance=2e-2
        once tcp cuda tcp || return 0
        cp tcp.losses cpu.losses
    fi
    once nccl cuda nccl && near nccl
    once ring cuda nccl --collective ring && near ring && same ring
    [ "$(wc -w <out)" -gt 0 ] && once local cuda local && near local && same local
    [ "$mode" != all ] || echo "$runs runs, $failures failures: $options"
}

some() {
    try --stages 2
    try --stages 4 --schedule zb-h1
    try --stages 2 --chunks 2 --schedule interleaved --replicas 2 --bucket 10KB
    try --stages 2 --replicas 2 --tensor-parallel 2 --zero 3
    try --stages 1 --replicas 4 --zero 2 --bucket 20KB
    try --stages 1 --tensor-parallel 4 --half
    try --stages 2 --replicas 2 --tensor-parallel 2 --bucket 20KB --zero 1 --half
    try --stages 2 --tensor-parallel 2 --sequence-parallel --schedule zb-h1
    try --stages 1 --replicas 2 --tensor-parallel 2 --sequence-parallel --zero 3
    try --stages 1 --tensor-parallel 4 --sequence-parallel --recompute full --half
    try --stages 2 --replicas 2 --context-parallel 2 --tensor-parallel 2
    try --stages 2 --replicas 4 --context-parallel 4 --context-exchange alltoall --schedule zb-h1
    try --stages 1 --replicas 4 --context-parallel 2 --context-exchange alltoall --tensor-parallel 2 --sequence-parallel --zero 1
    model=$here/../models/llama.json # two heads of keys and values for four replicas
    try --stages 1 --replicas 4 --context-parallel 4 --context-exchange alltoall
    model=$here/../models/mixtral.json
    try --stages 2 --replicas 4 --expert-parallel 4 --schedule zb-h1 --zero 1
    try --stages 1 --replicas 4 --expert-parallel 2 --context-parallel 2
    try --stages 1 --replicas 2 --expert-parallel 2 --zero 2
    try --stages 1 --replicas 2 --expert-parallel 2 --tensor-parallel 2 --sequence-parallel --zero 2
    model=$here/../models/gpt_oss.json
    try --stages 2 --replicas 2 --expert-parallel 2 --tensor-parallel 2 --sequence-parallel --recompute full
    model=$here/../models/gpt_oss.json:capacity=125 # some are dropped, some places are free
    try --stages 1 --replicas 2 --expert-parallel 2 --tensor-parallel 2 --recompute full
}

exchanges() {
    model=gpt-tiny:layers=1,hidden=16,heads=2,tokens=16
    try --stages 1 --replicas 2 --context-parallel 2 --context-exchange alltoall
    cat >moe.json <<'EOF'
{"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_act": "silu", "hidden_size": 8, "intermediate_size": 12,
 "max_position_embeddings": 16, "num_attention_heads": 2, "num_experts_per_tok": 2, "num_hidden_layers": 1, "num_key_value_heads": 2,
 "num_local_experts": 4, "rope_theta": 10000.0, "sliding_window": null, "torch_dtype": "float32", "vocab_size": 256}
EOF
    for model in moe.json moe.json:capacity=75; do
        try --stages 1 --replicas 2 --expert-parallel 2
    done
    model=moe.json
    try --stages 1 --replicas 2 --expert-parallel 2 --tensor-parallel 2 --sequence-parallel
}

all() { # all PART OF
    k=0
    for schedule in sequential gpipe 1f1b interleaved breadth-first zb-h1 pipedream; do
        for shape in "1 2 1" "1 3 1" "1 4 1" "1 8 1" "1 1 2" "1 1 4" "1 2 2" "1 4 2" "1 2 4" "2 1 1" "2 2 1" "2 4 1" \
            "2 1 2" "2 2 2" "2 1 4" "3 1 1" "3 2 1" "3 1 2" "4 1 1" "4 2 1" "4 1 2" "8 1 1"; do
            # shellcheck disable=SC2086 # three words
            set -- $shape
            stages=$1 replicas=$2 shards=$3
            chunks=
            case $schedule in interleaved | breadth-first) chunks="--chunks 2" ;; esac
            for zero in 0 1 2 3; do
                for bucket in "" "--bucket 10KB" "--half"; do
                    [ "$replicas" -gt 1 ] || [ "$zero$bucket" = 0 ] || [ "$zero$bucket" = "0--half" ] || continue
                    k=$((k + 1))
                    [ $((k % of)) = "$part" ] || continue
                    try --schedule $schedule --stages "$stages" --replicas "$replicas" --tensor-parallel "$shards" \
                        $chunks --zero $zero $bucket
                    [ "$shards" = 1 ] || try --schedule $schedule --stages "$stages" --replicas "$replicas" \
                        --tensor-parallel "$shards" --sequence-parallel $chunks --zero $zero $bucket
                done
            done
        done
    done
}

# One transport per run, so that every plan sees many seeds.
soak() {
    seed=0
    while [ $seed -lt "$1" ]; do
        seed=$((seed + 1))
        export DOUBLE_SEED=$seed DOUBLE_FAULTS=delay,in-progress
        while read -r transport options; do
            case $transport in "" | "#"*) continue ;; esac
            unset DOUBLE_SEED DOUBLE_FAULTS
            key=$(echo "$transport $options" | tr -c 'a-zA-Z0-9\n' _)
            dtype=fp32
            case " $options " in *" --half "*) dtype=bf16 ;; esac
            # shellcheck disable=SC2046 # words
            plan $(echo " $options " | sed 's/ --half / /; s/ --collective ring / /') || {
                fail "$options: $(tail -n 1 plan.out)"
                continue
            }
            how=
            case " $options " in *" --collective ring "*) how="--collective ring" ;; esac
            # shellcheck disable=SC2086 # words
            [ -e "$key" ] || { once first cuda "$transport" $how && cp first.hash "$key"; } || continue
            export DOUBLE_SEED=$seed DOUBLE_FAULTS=delay,in-progress
            # shellcheck disable=SC2086 # words
            once "seed" cuda "$transport" $how && cmp -s seed.hash "$key" ||
                fail "$options over $transport, seed $seed: other parameters than without a seed"
        done <"$here/soak.txt"
        echo "$seed seeds: $runs runs, $failures failures"
    done
}

case $mode in
some) some ;;
exchanges) exchanges ;;
all) part=${3:-0} of=${4:-1} && all ;;
soak) soak "${3:-100}" ;;
esac
echo "$runs runs, $failures failures"
[ $failures = 0 ]
