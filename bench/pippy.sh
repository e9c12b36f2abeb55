#!/bin/sh
# PiPPy's comparison (pytorch/PiPPy, pull request 1080): five models on 2 and 4 GPUs, cut by hand at layers, by
# its automatic split by size and by its graph split, each plan simulated. Prints the table of
# docs/results/2026-11-23-pippy.md; status 1 where the graph split is slower than the automatic one, or more
# than 6 % slower than the cut by hand. A minute. Usage: bench/pippy.sh FORELINE [TYPE_OF_GPU [BATCH]]
set -eu
tool=$(realpath "$1") gpu=${2:-A100} batch=${3:-32}
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir"
seconds() { # seconds PLAN: of an iteration
    "$tool" simulate "$1" --engine simgrid --json 2>/dev/null | sed -n 's/^  "iteration_s": \(.*\),$/\1/p'
}
says() { # says WHAT FILE: a line of what plan printed
    sed -n "s/^$1  *//p" "$2"
}
echo '| model | GPUs | manual ms | autosplit ms | graphsplit ms | over autosplit % | over manual % | published, over both | CPU s |'
echo '|---|---|---|---|---|---|---|---|---|'
while read -r model gpus manual auto graph; do
    set -- --model "$model" --platform "node:gpus=$gpus,type=$gpu" --schedule gpipe --microbatches "$gpus" \
        --microbatch-size $((batch / gpus))
    "$tool" plan --algorithm manual --framework foreline --stages "$gpus" "$@" -o manual.json >manual 2>&1 || cat manual >&2
    "$tool" plan --objective pippy --algorithm sizesplit --stages "$gpus" "$@" -o auto.json >auto 2>&1 || cat auto >&2
    "$tool" plan --objective pippy --stages "$gpus" "$@" -o graph.json >graph 2>&1 || cat graph >&2
    echo "$model $gpus $(seconds manual.json) $(seconds auto.json) $(seconds graph.json) $manual $auto $graph \
$(says 'CPU time' graph | cut -d ' ' -f 1) $(says note graph | grep -o 'infeasible' || echo exact)"
done >rows <<END
bert-base:dtype=fp32 2 0.0876 0.1030 0.0851
bert-base:dtype=fp32 4 0.0513 0.0590 0.0495
gpt2-small:dtype=fp32 2 0.1031 0.1316 0.0997
gpt2-small:dtype=fp32 4 0.0572 0.0820 0.0547
fnet-base:dtype=fp32 2 0.0661 0.0938 0.0664
fnet-base:dtype=fp32 4 0.0359 - 0.0351
blenderbot-3b:dtype=fp32 2 0.4853 0.5014 0.4863
blenderbot-3b:dtype=fp32 4 0.2470 0.2630 0.2479
electra-small:dtype=fp32 2 0.1085 0.1385 0.1028
electra-small:dtype=fp32 4 0.0607 - 0.0544
END
awk '
function over(a, b,    text) {
    text = b + 0 > 0 ? sprintf("%+.1f", 100 * (a / b - 1)) : "fails"
    return text ~ /^.0\.0$/ ? "0.0" : text
}
{
    sub(":.*", "", $1)
    mark = $10 == "infeasible" ? " (balanced)" : ""
    printf "| %s | %d | %.2f | %.2f | %.2f%s | %s | %s | %s, %s | %s |\n", $1, $2, 1e3 * $3, 1e3 * $4, 1e3 * $5, mark,
        over($5, $4), over($5, $3), over($8, $7), over($8, $6), $9
    bad += $5 > $4 || $5 > 1.06 * $3
    two[$1] = $2 == 2 ? $5 : two[$1]
    before[$1] = $2 == 2 ? $8 : before[$1]
    if ($2 == 4)
        gain = gain sprintf("%s %.2f (published %.2f), ", $1, two[$1] / $5, before[$1] / $8)
}
END {
    print "\nSpeed-up from 2 to 4 GPUs, graphsplit: " substr(gain, 1, length(gain) - 2)
    print "Rows in which graphsplit is slower than autosplit, or more than 6 % slower than the cut by hand: " bad + 0
    exit bad > 0
}' rows
