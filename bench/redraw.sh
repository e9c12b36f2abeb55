#!/bin/sh
# Draws the pictures of docs/results again from the tables beside them, without computing anything: after a
# change of `foreline plot`. Usage: bench/redraw.sh FORELINE
set -eu
case $1 in */*) foreline=$(realpath "$1") ;; *) foreline=$1 ;; esac
bench=$(cd "$(dirname "$0")" && pwd)
results=$(cd "$bench/../docs/results" && pwd)
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir"

# measurement FILE ENGINE PLAN SECONDS
measurement() {
    printf '{"format": "foreline-measurement", "version": 1, "engine": "%s", "plan": "%s.json",
        "iteration_s": %s, "samples_per_s": 0, "tokens_per_s": 0,
        "bubble_fraction": 0, "cpu_s": 0, "ranks": [], "links": []}\n' "$2" "$3" "$4" >"$1"
}

# Of results.tsv: a file for every prediction, and as many as there were runs with their median.
scatter() {
    rm -f ./*.json
    grep -v '^#' "$results/$1/results.tsv" | tr -d ' ' >rows
    while IFS='	' read -r plan engine runs _ measured _ _ analytic _ simgrid _; do
        measurement "$plan.analytic.json" analytic "$plan" "$analytic"
        measurement "$plan.simgrid.json" simgrid "$plan" "$simgrid"
        for run in $(seq "$runs"); do
            measurement "$plan.$run.json" "$engine" "$plan" "$measured"
        done
    done <rows
    "$foreline" plot scatter ./*.json -o scatter.svg
    cp scatter.svg "$results/$1/"
}
scatter emulation
scatter parallelisms
scatter validation/netns
scatter validation/paced

# scale: CPU seconds over GPUs.
{
    printf 'GPUs\tsimulated\tCPU s\n'
    for table in "$results"/scale/scale.tsv "$results"/scale/whole.tsv; do
        awk -F '\t' -v OFS='\t' '$2 != "rail" { next }
            $3 == "simgrid" && $4 == "folded" && FILENAME ~ /scale.tsv/ {
                print $1, "folded on SimGrid", $6; print $1, "of it proof and simulation", $9 }
            $4 == "whole" { print $1, "whole, " $3, $6 }' "$table"
    done
} >scale.tsv
"$foreline" plot throughput scale.tsv --x GPUs --y 'CPU s' --by simulated -o drawn.svg
cp drawn.svg "$results/scale/scale.svg"

# busbw: from the table of the page, 64 KiB and more.
"$bench/busbw.sh" "$foreline" "$results/2026-11-23-busbw.md" .
cp busbw.svg "$results/2026-11-23-busbw.svg"

# pippy: the times that the page's picture has always shown.
rm -f ./*.json
while read -r engine file seconds; do
    measurement "$file.json" "$engine" "$file" "$seconds"
done <<END
simgrid 3090-ours 0.09041
simgrid 3090-parts 0.05023
simgrid 3090-fsdp 0.02676
tcp cpu-ours 0.2033
tcp cpu-parts 0.06444
tcp cpu-fsdp 0.04571
END
"$foreline" plot bars 3090-ours.json 3090-parts.json 3090-fsdp.json cpu-ours.json cpu-parts.json cpu-fsdp.json -o bars.svg
cp bars.svg "$results/2026-11-23-pippy.svg"
