#!/bin/sh
# PiPPy's comparison (pytorch/PiPPy, pull request 1080): five models on 2 and 4 GPUs, cut by hand at layers, by
# its automatic split by size, by its graph split (milp: the program to the letter; graphsplit: by times), each
# plan simulated; then four more models of its examples, for which nothing is published. Prints the tables of
# docs/results/2026-11-23-pippy.md; status 1 where graphsplit is slower than the automatic split, or more
# than 6 % slower than the cut by hand. Two minutes. With --forward-only the same plans' inference, as the original
# measured. Usage: bench/pippy.sh FORELINE [TYPE_OF_GPU [BATCH [--forward-only]]]
set -eu
tool=$(realpath "$1") gpu=${2:-A100} batch=${3:-32} forward=${4:-}
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir"
seconds() { # seconds PLAN: of an iteration
    # shellcheck disable=SC2086 # one word or none
    "$tool" simulate "$1" $forward --engine simgrid --json 2>/dev/null | sed -n 's/^  "iteration_s": \(.*\),$/\1/p'
}
says() { # says WHAT FILE: a line of what plan printed
    sed -n "s/^$1  *//p" "$2"
}
while read -r model gpus manual auto graph; do
    set -- --model "$model" --platform "node:gpus=$gpus,type=$gpu" --schedule gpipe --microbatches "$gpus" \
        --microbatch-size $((batch / gpus)) --stages "$gpus"
    rm -f *.json
    "$tool" plan --algorithm manual --framework foreline "$@" -o manual.json >manual 2>&1 || cat manual >&2
    for way in sizesplit milp graphsplit; do
        "$tool" plan --objective pippy --algorithm $way "$@" -o $way.json >$way 2>&1 || cat $way >&2
    done
    echo "$model $gpus $(seconds manual.json) $(seconds sizesplit.json) $(seconds milp.json) $(seconds graphsplit.json) \
$manual $auto $graph $(says 'CPU time' milp | cut -d ' ' -f 1) $(says 'CPU time' graphsplit | cut -d ' ' -f 1) \
$(says note milp | grep -o 'infeasible' || echo exact)"
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
xlnet-base:dtype=fp32 2 - - -
xlnet-base:dtype=fp32 4 - - -
convbert-base:dtype=fp32 2 - - -
convbert-base:dtype=fp32 4 - - -
mobilebert:dtype=fp32 2 - - -
mobilebert:dtype=fp32 4 - - -
unet 2 - - -
unet 4 - - -
END
awk '
function over(a, b,    text) {
    text = b + 0 > 0 && a + 0 > 0 ? sprintf("%+.1f", 100 * (a / b - 1)) : "fails"
    return text ~ /^.0\.0$/ ? "0.0" : text
}
function published(    text) {
    return $9 + 0 > 0 ? over($9, $8) ", " over($9, $7) : "-"
}
BEGIN {
    print "| model | GPUs | manual ms | autosplit ms | milp ms | graphsplit ms | over autosplit % | over manual % | milp there, over both | CPU ms, milp and graphsplit |"
    print "|---|---|---|---|---|---|---|---|---|---|"
}
{
    sub(":.*", "", $1)
    mark = $12 == "infeasible" ? " (balanced)" : ""
    printf "| %s | %d | %.2f | %.2f | %.2f%s | %.2f | %s | %s | %s | %.2g, %.2g |\n", $1, $2, 1e3 * $3, 1e3 * $4, 1e3 * $5, mark,
        1e3 * $6, over($6, $4), over($6, $3), published(), 1e3 * $10, 1e3 * $11
    bad += $6 > $4 || $6 > 1.06 * $3
    worse += $6 > $5
    two[$1] = $2 == 2 ? $6 : two[$1]
    before[$1] = $2 == 2 ? $9 : before[$1]
    if ($2 == 4 && $9 + 0 > 0)
        gain = gain sprintf("%s %.2f (published %.2f), ", $1, two[$1] / $6, before[$1] / $9)
}
END {
    print "\nSpeed-up from 2 to 4 GPUs, graphsplit: " substr(gain, 1, length(gain) - 2)
    print "Rows in which graphsplit is slower than milp: " worse + 0
    print "Rows in which graphsplit is slower than autosplit, or more than 6 % slower than the cut by hand: " bad + 0
    exit bad > 0
}' rows
