#!/bin/sh
# Device memory that one step of a GPT in bf16 reads and writes, launch by launch as the double sees it (each byte of a launch
# once), against the least that its tensors allow: a product reads its operands and writes its result, a norm reads a sum's
# two terms and writes the sum and itself, and so on down the table that is printed. The model has GPT-2 124M's proportions:
# 8 rows and 64 classes to a channel. Usage: bytes.sh DIRECTORY_OF_BINARIES [LAYERS HEADS SAMPLES TOKENS VOCABULARY]
set -eu
bin=$(cd "$1" && pwd)
layers=${2:-12} heads=${3:-1} samples=${4:-4} tokens=${5:-128} vocabulary=${6:-4096}
channels=$((64 * heads))
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
fail() {
    echo "FAIL: $*" >&2
    exit 1
}

"$bin/foreline" plan --algorithm balanced --platform laptop --stages 1 --microbatches 1 --microbatch-size "$samples" --model \
    "gpt2-small:layers=$layers,hidden=$channels,heads=$heads,tokens=$tokens,vocabulary=$vocabulary,dtype=bf16" \
    -o p.json >plan.out 2>&1 || fail "$(cat plan.out)"
steps=1 patience=300 silence=120s
DOUBLE_RACES=1 run cuda nccl || fail "$(why)"

# Numbers of tensors: a bytes per activation (2), of rows x channels n; weights of a layer w, without biases; of all
# parameters p. What each group must move at least, and by how much it may be more:
#   products    operands and results; gradients of weights are read and written in fp32; what GELU was given is
#               written forward and read backward
#   attention   q, k, v in, y out; backward the same, dy, and the gradients of q, k and v: once
#   norms       forward x, branch, x + branch, y; backward x, dy, and the residual stream's gradient twice
#   loss        logits in, their gradient out
#   embedding   rows of the batch out; backward in; the tables' gradients twice
#   update      parameter, two moments and gradient in and out, bf16 out
#   biases      nothing: their gradients are sums of what gradients of weights read
#   others      nothing
awk -F '\t' -v l="$layers" -v c="$channels" -v rows=$((samples * tokens)) -v t="$tokens" -v v="$vocabulary" '
    function group(name) {
        if (name == "(product)") return "products"
        if (name ~ /^flash|^attention/) return "attention"
        if (name ~ /^norm/) return "norms"
        if (name ~ /^loss/) return "loss"
        if (name ~ /^embedding/) return "embedding"
        if (name == "adam") return "update"
        return name ~ /^column/ ? "biases" : "others"
    }
    $1 == "#bytes" && $3 == 0 { moved[group($6)] += $4 + $5; launches[group($6)]++ }
    END {
        n = rows * c; w = 12 * c * c; p = l * (w + 13 * c) + 2 * c + (v + t) * c; values = v < 256 ? v : 256
        operands = (3 + 1 + 1 + 1 + 1 + 4 + 4 + 1) * n * 2 + w * 2
        head = (n + v * c + rows * v) * 2
        least["products"] = l * (3 * operands - w * 2 + w * 8 + 2 * 4 * n * 2) + 3 * head - v * c * 2 + v * c * 8
        least["attention"] = l * (4 + 8) * n * 2
        least["norms"] = ((2 * l + 1) * 8 - 2) * n * 2
        least["loss"] = 2 * rows * v * 2
        least["embedding"] = (n + n) * 2 + (values + t) * c * (4 + 8)
        least["update"] = p * (4 * 8 + 2)
        limit["products"] = 1.01; limit["attention"] = 1.36; limit["norms"] = 1.2; limit["loss"] = 1.02
        limit["embedding"] = 1.1; limit["update"] = 1.01
        printf "%-10s %8s %12s %12s %6s\n", "# group", "launches", "bytes", "least", "ratio"
        k = split("products attention norms loss embedding update biases others", order, " ")
        for (i = 1; i <= k; i++) {
            g = order[i]
            ratio = least[g] > 0 ? sprintf("%.3f", moved[g] / least[g]) : "-"
            printf "%-10s %8d %12d %12d %6s\n", g, launches[g], moved[g], least[g], ratio
            if (least[g] > 0 && !(moved[g] >= 0.8 * least[g] && moved[g] <= limit[g] * least[g])) bad = bad " " g
            all += moved[g]; minimum += least[g]
        }
        printf "%-10s %8s %12d %12d %6.3f\n", "together", "", all, minimum, all / minimum
        if (!(all <= 1.25 * minimum)) bad = bad " together"
        if (bad) { print "too much, or too little to be true:" bad; exit 1 }
    }' log.0 >table || fail "$(cat table)"
cat table
