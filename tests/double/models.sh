#!/bin/sh
# Small models of the zoo and of families after GPT-2 on the double: the CPU's losses within 1e-5, shards and stages
# too, and in bf16 within 1e-2 of fp32, 5e-3 of the CPU's. MODEL: a file of tests/models or a name of the zoo, with
# overrides behind a colon.
# Without any, a small GPT in bf16 too, with the epilogues of cuBLASLt, where it refuses them, and with activations made
# again; and a head that is made again, whose logits the loss has not overwritten.
# Usage: models.sh DIRECTORY_OF_BINARIES [MODEL...]
set -eu
bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
models=$here/../models
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
# The losses of the last run are within so much of those in `wanted`.
close_to() {
    losses | paste -d ' ' wanted - | awk -v most="$1" '
        { d = ($1 - $2) / $1; d = d < 0 ? -d : d; n++; if (!($1 > 0 && d <= most)) bad = 1 }
        END { exit bad || n != 3 }'
}
plan_file() {
    "$bin/foreline" plan --algorithm balanced --platform laptop --microbatches 2 "$@" -o p.json >plan.out 2>&1 ||
        fail "$(cat plan.out)"
}
# whole MODEL, shards MODEL, half MODEL: as the CPU with the losses in `wanted`
spec() {
    if [ -f "$models/${1%%:*}.json" ]; then echo "$models/${1%%:*}.json${1#"${1%%:*}"}"; else echo "$1"; fi
}
whole() {
    plan_file --model "$(spec "$1")" --stages $2
    [ $2 -gt 1 ] || run cpu tcp || fail "$1 on the CPU: $(why)"
    [ $2 -gt 1 ] || losses >wanted
    DOUBLE_RACES=1 run cuda nccl || fail "$1 in $2 stages: $(why)"
    close_to 1e-5 || fail "$1 in $2 stages: $(losses | tr '\n' ' '), not $(tr '\n' ' ' <wanted)"
    echo "$1, $2 stages: $(tr '\n' ' ' <wanted)"
}
shards() {
    plan_file --model "$(spec "$1")" --stages 1 --tensor-parallel 2
    DOUBLE_RACES=1 run cuda nccl || fail "$1 in shards: $(why)"
    close_to 1e-5 || fail "$1 in shards: $(losses | tr '\n' ' '), not $(tr '\n' ' ' <wanted)"
}
half() {
    model=$(spec "$1")
    case $1 in
    *:*) model=$model,dtype=bf16 ;;
    *) model=$model:dtype=bf16 ;;
    esac
    plan_file --model "$model" --stages 1
    run cpu tcp || fail "$1 in bf16 on the CPU: $(why)"
    close_to 1e-2 || fail "$1 in bf16 on the CPU: $(losses | tr '\n' ' '), not $(tr '\n' ' ' <wanted)"
    losses >wanted
    run cuda nccl || fail "$1 in bf16: $(why)"
    close_to 5e-3 || fail "$1 in bf16: $(losses | tr '\n' ' '), on the CPU $(tr '\n' ' ' <wanted)"
}
shift
others=$#
[ $# -gt 0 ] || set -- llama mixtral
for model in "$@"; do
    whole $model 1
    case $model in
    # norms of heads, one head, or queries, keys and values side by side cannot be divided, on the CPU either
    qwen3_moe | gnmt:* | unet:* | convbert* | mobilebert* | xlnet*) whole $model 2 ;;
    *) shards $model ;;
    esac
    case $model in
    alexnet:* | vgg:* | resnet:* | unet:* | gnmt:*) ;; # the zoo has these in fp32 alone
    *) half $model ;;
    esac
done
[ $others = 0 ] || exit 0
gpt=gpt-tiny:layers=2,hidden=64,heads=1,tokens=32,vocabulary=301 # rows of logits are apart
plan_file --model $gpt --stages 1
run cpu tcp || fail "gpt on the CPU: $(why)"
losses >wanted
DOUBLE_RACES=1 run cuda nccl || fail "gpt: $(why)"
close_to 1e-5 || fail "gpt: $(losses | tr '\n' ' '), not $(tr '\n' ' ' <wanted)"
for recompute in none full; do
    plan_file --model $gpt,dtype=bf16 --stages 1 --recompute $recompute
    for faults in "" no-epilogues; do
        DOUBLE_RACES=1 DOUBLE_FAULTS=$faults run cuda nccl || fail "gpt in bf16 $faults, $recompute: $(why)"
        close_to 1e-2 || fail "gpt in bf16 $faults, $recompute: $(losses | tr '\n' ' '), not $(tr '\n' ' ' <wanted)"
        awk -F '\t' '$1 == "#kernel" && $5 ~ /^(bias_add|gelu)/ { n++ } END { exit ("'"$faults"'" == "") != (n == 0) }' log.0 ||
            fail "gpt in bf16 $faults: $(grep -c '#kernel.*\(bias_add\|gelu\)' log.0) kernels beside products"
        echo "gpt in bf16 $faults, recompute $recompute: $(losses | tr '\n' ' ')"
    done
done
# A last stage of the final norm, the head and the loss, of which the backward makes the first two again.
plan_file --model gpt-tiny:layers=1,hidden=16,heads=1,tokens=32,vocabulary=2001 --stages 2
/usr/bin/python3 - <<'EOF'
import json
p = json.load(open("p.json"))
front, back = p["stages"]
assert front["ops"].pop() == "ln_f" and back["ops"] == ["head", "loss"]
back["ops"].insert(0, "ln_f")
back.update(recompute="full", recompute_unit=2, recompute_layers=2)
json.dump(p, open("p.json", "w"))
EOF
run cpu tcp || fail "a head made again on the CPU: $(why)"
losses >wanted
run cuda nccl || fail "a head made again: $(why)"
close_to 1e-5 || fail "a head made again: $(losses | tr '\n' ' '), not $(tr '\n' ' ' <wanted)"
# Heads of 64 channels: on tensor cores the gradients of queries and keys are turned back inside attention.
cat >llama64.json <<'EOF2'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 128, "intermediate_size": 96,
 "max_position_embeddings": 80, "num_attention_heads": 2, "num_hidden_layers": 2, "num_key_value_heads": 1,
 "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "vocab_size": 256}
EOF2
plan_file --model llama64.json --stages 1
run cpu tcp || fail "llama, heads of 64, on the CPU: $(why)"
losses >wanted
for recompute in none full; do
    plan_file --model llama64.json:dtype=bf16 --stages 1 --recompute $recompute
    DOUBLE_RACES=1 run cuda nccl || fail "llama, heads of 64, $recompute: $(why)"
    close_to 1e-2 || fail "llama, heads of 64, $recompute: $(losses | tr '\n' ' '), not $(tr '\n' ' ' <wanted)"
    awk -F '\t' -v forwards=$([ $recompute = none ] && echo 4 || echo 8) '
        $1 == "#kernel" && $5 ~ /^rope/ { n[$3] = $4 } END { exit !(n[0] == forwards && n[1] == forwards) }' log.0 ||
        fail "llama, heads of 64, $recompute: $(grep rope log.0)"
    echo "llama, heads of 64, bf16, recompute $recompute: $(losses | tr '\n' ' ')"
done
