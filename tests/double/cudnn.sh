#!/bin/sh
# Runs with --cudnn on the double, whose cuDNN is of version $DOUBLE_CUDNN: losses within 1e-2 of the CPU's in fp32, the same
# bits twice and with graphs, all attention by cuDNN; where it refuses, has no engine or is asked for what it cannot, our
# kernels with their bits; where there is none, or too old a one, no run.
# Usage: cudnn.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
unset DOUBLE_CUDNN
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
plan_file() {
    "$bin/foreline" plan --algorithm balanced --platform laptop --stages 1 --microbatches 2 "$@" -o p.json >plan.out 2>&1 ||
        fail "$(cat plan.out)"
}
bits() { { losses && hash_of; } }
says() { # says WORDS: rank 0 does, of cuDNN
    grep -q "rank 0: cuDNN $1" err || fail "$model: $(grep -h cuDNN err || why), not $1"
}
# kernels PATTERN N: so many of the first step are called so
kernels() {
    n=$(awk -F '\t' '$1 == "#kernel" && $3 == 0 && $5 ~ /'"$1"'/ { n += $4 } END { print n + 0 }' log.0)
    [ "$n" = "$2" ] || fail "$model: $n of $1, not $2: $(grep '#kernel.*	0	' log.0)"
}
with() { # with OPTIONS...: a run with --cudnn
    DOUBLE_RACES=1 DOUBLE_CUDNN=${version:-91900} run cuda nccl --cudnn "$@" || fail "$model: $(why)"
}
refused() { # refused WORDS [OPTIONS...]
    words=$1
    shift
    ! run cuda nccl --cudnn "$@" || fail "$words: it runs"
    grep -q -e "$words" err || fail "$words: $(cat err)"
}

cat >llama.json <<'EOF'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 128, "intermediate_size": 96,
 "max_position_embeddings": 24, "num_attention_heads": 2, "num_hidden_layers": 2, "num_key_value_heads": 1,
 "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "vocab_size": 256}
EOF
for model in llama.json gpt-tiny:layers=2,hidden=64,heads=2,tokens=34,vocabulary=301; do
    plan_file --model $model
    run cpu tcp || fail "$model on the CPU: $(why)"
    losses >wanted
    case $model in *:*) half=$model,dtype=bf16 ;; *) half=$model:dtype=bf16 ;; esac
    plan_file --model $half
    run cuda nccl || fail "$model without cuDNN: $(why)"
    bits >own
    with
    says "9.19.0: 1 shape of attention$"
    kernels cudnn_forward 4 && kernels cudnn_backward 4 && kernels '^(flash|attention)' 0
    bits >first
    ! cmp -s own first || fail "$model: the bits of our own kernels"
    losses | paste -d ' ' wanted - | awk '{ d = ($1 - $2) / $1; n++; if (!(d < 1e-2 && d > -1e-2)) bad = 1 }
        END { exit bad || n != 3 }' || fail "$model: $(losses | tr '\n' ' '), not $(tr '\n' ' ' <wanted)"
    echo "$model by cuDNN: $(losses | tr '\n' ' ')"
done
with
bits | cmp -s - first || fail "$model: other bits the second time"
with --cuda-graphs
bits | cmp -s - first || fail "$model: other bits as graphs"
# Activations made again: the same bits.
plan_file --model $half --recompute full
with
bits | cmp -s - first || fail "$model: other bits with recomputation"
# What it does not take is ours, bit by bit.
plan_file --model $half
for faults in no-cudnn-engines no-cudnn-backward; do
    DOUBLE_FAULTS=$faults with
    says "9.19.0: 0 shapes of attention; not all: no engine: the double has no engine"
    kernels cudnn 0
    bits | cmp -s - own || fail "$faults: other bits than ours"
done
# A second shape, for whose workspace there is no memory: the first one keeps its own.
"$bin/foreline" model show $half --json | sed '/"h1.attn", /s/"heads": 2/"heads": 4/' >two.json
plan_file --model two.json
with
says "9.19.0: 2 shapes of attention$"
DOUBLE_FAULTS=no-memory:7 with
says "9.19.0.*1.*attention"
plan_file --model $half
version=91002 with
says "9.10.2.*0.*attention.*9.16.*128"
bits | cmp -s - own || fail "9.10.2: other bits than ours"
plan_file --model $model
with
says "9.19.0: 0 shapes of attention; not all: only bf16"
# No run.
refused "--cudnn.*libcudnn.so.9.*found"
DOUBLE_CUDNN=90800 refused "--cudnn.*cuDNN.*9.8.0.*install.*9.10.2"
plan_file --model $half
DOUBLE_CUDNN=91900 DOUBLE_FAULTS=cudnn-error:5 refused "cuDNN.*attention.*cuDNN.*CUDNN_STATUS_EXECUTION_FAILED"
! run cpu tcp --cudnn || fail "on the CPU: it runs"
grep -q -e "--cudnn.*--device.*cuda" err || fail "on the CPU: $(cat err)"
refused "--cudnn.*--compute.*paced" --compute paced
# Figures of ops: with cuDNN's, or none.
profiles() { # profiles MODEL OPTIONS...
    FORELINE_WORKER=$double timeout "${patience:-20}" "$bin/foreline" model profile "$@" --repeats 1 -o profiled.json >out 2>err
}
DOUBLE_CUDNN=91900 profiles $half --device cuda --cudnn || fail "profile: $(cat err)"
unfit() { # unfit WORDS MODEL OPTIONS...
    words=$1
    shift
    ! profiles "$@" || fail "profile, $words: it is made"
    grep -q -e "$words" err || fail "profile, $words: $(cat err)"
}
DOUBLE_CUDNN=91900 DOUBLE_FAULTS=cudnn-error:5 unfit "cuDNN.*attention.*cuDNN" $half --device cuda --cudnn
DOUBLE_CUDNN=91900 unfit "--cudnn: cuDNN 9.19.0: 0 shapes of attention; not all: only bf16" $model --device cuda --cudnn
unfit "--cudnn.*libcudnn.so.9.*found" $half --device cuda --cudnn
unfit "--cudnn.*--device.*cuda" $model --cudnn
echo "refusals: as they should be"
