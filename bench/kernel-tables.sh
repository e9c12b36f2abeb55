#!/bin/sh
# How far the models of kernels and collectives are off NVIDIA's measured tables, as the tables of
# docs/results/2026-11-30-kernel-tables.md. Three minutes of CPU time.
# Usage: bench/kernel-tables.sh FORELINE SYSTEMS     SYSTEMS is the package's folder (docs/reference/kernels.md); PYTHON: one with pyarrow
set -eu
foreline=$(realpath "$1") systems=$2 tools=$(dirname "$0")/../tools
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

column() { # of a GPU's row: word of the report, without %
    awk -v gpu="$2" -v n="$3" '$1 == gpu { print $n == "-" ? "-" : $n }' "$1"
}

words() { # of the property that a GPU's rows give: those named
    "$foreline" lab kernels "$out/512/$1.csv" --gpu "$gpu" | sed -n 's/.*id="kernels" value="\([^"]*\)".*/\1/p' |
        tr ' ' '\n' | grep -E "^($2)=" | paste -sd ' '
}

for least in 1 512; do
    "${PYTHON:-python3}" "$tools/kernel_tables.py" "$systems" all -o "$out/$least" --rows 3000 --least $least >"$out/said"
    for kind in products attention; do
        "$foreline" lab kernels "$out/$least/$kind.csv" >"$out/$kind.$least"
    done
done
grep '^#' "$out/said"
awk -F, 'NR == 1 || $5 >= 1048576' "$out/1/collectives.csv" >"$out/large.csv"
"$foreline" lab kernels "$out/large.csv" >"$out/collectives.all"

echo
echo '| GPU | products, M >= 512 | left out | any M | left out | attention, 512 tokens and more | any | collectives by the model | by curves |'
echo '|---|---|---|---|---|---|---|---|---|'
for gpu in $(sed -n 's/^# \([^:]*\):.*/\1/p' "$out/said"); do
    awk -F, -v gpu="$gpu" 'NR == 1 || $1 == gpu || $1 == gpu " NVLS"' "$out/large.csv" >"$out/one.csv"
    "$foreline" lab kernels "$out/one.csv" --gpu "$gpu" >"$out/collectives"
    echo "| $gpu | $(column "$out/products.512" "$gpu" 9) | $(column "$out/products.512" "$gpu" 11) |" \
        "$(column "$out/products.1" "$gpu" 9) | $(column "$out/products.1" "$gpu" 11) |" \
        "$(column "$out/attention.512" "$gpu" 9) | $(column "$out/attention.1" "$gpu" 9) |" \
        "$(column "$out/collectives" "$gpu" 3) | $(sed -n 's/.*median error \([0-9.]*\) %.*/\1/p' "$out/collectives") |"
done

echo
echo '| collective | rows | by curves |'
echo '|---|---|---|'
for kind in all-reduce all-gather reduce-scatter all-to-all; do
    awk -F, -v kind=$kind 'NR == 1 || $2 == kind' "$out/large.csv" >"$out/one.csv"
    "$foreline" lab kernels "$out/one.csv" |
        sed -n "s/.*median error \([0-9.]*\) % of the \([0-9]*\) .*/| $kind | \2 | \1 |/p"
done

echo
echo '| GPU | constants, M >= 512 and 512 tokens |'
echo '|---|---|'
for gpu in $(sed -n 's/^# \([^:]*\):.*/\1/p' "$out/said"); do
    echo "| $gpu | \`$(words products 'bf16|rows|depth|memory|shortest|units|wave|pace|cache')\`" \
        "\`$(words attention 'flash3|flash_tokens|flash_narrow')\` |"
done
