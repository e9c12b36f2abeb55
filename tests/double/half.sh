#!/bin/sh
# Training in fp16 on the double: losses within 1e-4 of the CPU's in fp16 (1.5e-5 found), whole, in stages and shards,
# by replicas with ZeRO, over nccl, tcp and local, with a loss scale and without; NCCL sums fp16; as CUDA graphs the same
# bits; attention stays with our kernels where cuDNN is asked for. Usage: half.sh DIRECTORY_OF_BINARIES [all]
set -eu
bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
models=$here/../models
microbatches=2 steps=4
scaled="--optimizer adam:loss-scale=1024"
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
# Farthest of the last run's losses from those in `wanted`; 1: they are not as many, or none.
apart() {
    losses | paste -d ' ' wanted - | awk -v n="$steps" '
        { d = ($1 - $2) / $1; d = d < 0 ? -d : d; if (!($1 > 0 && d >= 0)) d = 1; if (d > most) most = d }
        END { printf "%.1e\n", NR == n ? most : 1 }'
}
# as_the_cpu MODEL TRANSPORTS OPTIONS...: of a plan
as_the_cpu() {
    model=$1 transports=$2
    shift 2
    plan "$@" || fail "$model $*: $(cat plan.out)"
    run cpu tcp || fail "$model $* on the CPU: $(why)"
    losses >wanted
    for transport in $transports; do
        DOUBLE_RACES=1 run cuda "$transport" || fail "$model $* over $transport: $(why)"
        off=$(apart)
        echo "${model##*/} $* over $transport: $off"
        awk -v off="$off" 'BEGIN { exit !(off <= 1e-4) }' ||
            fail "$model $* over $transport: $(losses | tr '\n' ' '), on the CPU $(tr '\n' ' ' <wanted)"
    done
}
# The last run again: the same losses and parameters.
same() { # same OPTIONS...
    { losses && hash_of; } >first
    run cuda nccl "$@" || fail "$model $*: $(why)"
    { losses && hash_of; } | cmp -s first - || fail "$model $*: $(losses | tr '\n' ' '), not $(tr '\n' ' ' <first)"
}
sums_fp16() { # NCCL's sums of the last run; the loss of divided classes tells fp32
    cat log.* | awk -F '\t' '!/^#/ && $4 ~ /AllReduce|ReduceScatter/ && $6 > 192 { n++; if ($7 != "float16") bad = 1 }
        END { exit bad || n == 0 }' || fail "sums that are not of fp16"
}

gpt=gpt-tiny:layers=2,hidden=32,heads=4,tokens=32,dtype=fp16
wide=gpt-tiny:layers=1,hidden=64,heads=1,tokens=32,dtype=fp16 # heads that tensor cores take
llama=$models/llama.json:dtype=fp16
mixtral=$models/mixtral.json:dtype=fp16
as_the_cpu $wide nccl --stages 1 $scaled
grep -q 'flash_columns<64, __half>' log.0 || fail "attention is not on tensor cores"
same --cuda-graphs
DOUBLE_CUDNN=91900 same --cudnn
grep -q "0 shapes of attention; not all: only bf16" err || fail "cuDNN: $(cat err)"
as_the_cpu $gpt nccl --stages 1 --replicas 2 --zero 2 --bucket 20KB $scaled
sums_fp16
as_the_cpu $llama local --stages 2
as_the_cpu $mixtral nccl --stages 1
# Who calibrates is told the type; a stub of it hears.
printf '#!/bin/sh\necho "$@" >"%s/asked"\nexit 1\n' "$work" >worker && chmod +x worker
! FORELINE_WORKER=$work/worker "$bin/foreline" calibrate --device cuda --model $gpt --batch 2 >out 2>&1 &&
    grep -q '^--calibrate [0-9]* fp16 ' asked || fail "calibrate: $(cat asked)"
[ "${2:-}" = all ] || exit 0
for model in $gpt $llama $mixtral; do
    for scale in "" "$scaled"; do
        as_the_cpu $model "nccl tcp local" --stages 2 $scale
        as_the_cpu $model nccl --stages 1 --recompute full $scale
        as_the_cpu $model "nccl tcp local" --stages 1 --replicas 2 --zero 1 $scale
        as_the_cpu $model "nccl tcp local" --stages 1 --replicas 2 --zero 2 $scale
        as_the_cpu $model "nccl tcp local" --stages 1 --tensor-parallel 2 $scale
    done
    as_the_cpu $model nccl --stages 1 --replicas 2 --zero 3
    as_the_cpu $model nccl --stages 2 --schedule zb-h1
    as_the_cpu $model local --stages 2 --replicas 2 --reduce-dtype fp32
    as_the_cpu $model nccl --stages 2 --replicas 2 --bucket 20KB $scaled
    same --collective ring
done
as_the_cpu $gpt nccl --stages 1 --tensor-parallel 2 --sequence-parallel $scaled
as_the_cpu $llama "nccl local" --stages 1 --tensor-parallel 2 --sequence-parallel
