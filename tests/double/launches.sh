#!/bin/sh
# How often the worker launches something on the GPU for one microbatch of GPT-2 124M (8 samples of 1,024 tokens, bf16) and
# the step's update, or for one of a configuration of Hugging Face: kernels, products and copies, counted on the null GPU,
# where they do nothing. Prints them by kind. With $graphs passes are graphs, which count as one launch; with $cudnn
# attention is cuDNN's, whose calls count as one each.
# Usage: launches.sh DIRECTORY_OF_BINARIES [MOST CONFIG.json]
set -eu
bin=$(cd "$1" && pwd)
most=${2:-293} least=100 config=${3:+$(realpath "$3")}
model=gpt2-small:dtype=bf16
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
fail() {
    echo "FAIL: $*" >&2
    exit 1
}

"$bin/foreline" plan --algorithm balanced --platform laptop --stages 1 --microbatches 1 --microbatch-size 8 \
    --model "${config:-$model}" -o p.json >plan.out 2>&1 || fail "$(cat plan.out)"
steps=1 patience=120 silence=60s
[ -z "${graphs:-}" ] || least=3 # a forward, a backward, an update
DOUBLE_CUDNN=${cudnn:-} DOUBLE_NULL=1 run cuda nccl ${graphs:+--cuda-graphs} ${cudnn:+--cudnn} || fail "$(why)"
awk -F '\t' '$1 == "#step" { n["(products)"] = $5; n["(copies)"] = $6; n["(graphs)"] = $13; kernels = $4 }
    $1 == "#kernel" { n[$5] = $4; sum += $4 }
    END { if (sum != kernels || kernels == 0) exit 1
          for (k in n) printf "%5d  %s\n", n[k], k
          printf "%5d  launches\n", kernels + n["(products)"] + n["(copies)"] + n["(graphs)"] }' log.0 | sort -n >table ||
    fail "the log does not add up: $(cat log.0)"
cat table
[ "$(tail -n 1 table | awk '{ print $1 }')" -le "$most" ] || fail "more than $most launches"
[ "$(tail -n 1 table | awk '{ print $1 }')" -ge $least ] || fail "fewer launches than products of the model"
