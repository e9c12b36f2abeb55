#!/bin/sh
# A trace of 256 GPUs, which is compressed by itself, is drawn in part as the trace of that part.
# Usage: trace_large.sh FORELINE
set -e
foreline=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
command -v gnuplot >/dev/null || { echo "SKIP: gnuplot is missing"; exit 77; }
"$foreline" plan --model llama3-8b --platform rail:nodes=32,gpus=8,type=H100,nic=400Gbps \
    --algorithm balanced --granularity layer --stages 8 --replicas 32 --microbatches 16384 \
    -o plan.json >/dev/null 2>&1
"$foreline" simulate plan.json --engine analytic --trace all.json >/dev/null 2>said
grep -q '^trace .*all.json is compressed by gzip' said
gzip -t <all.json
# The lines of ranks 8 to 255 go, and the comma that is then the last.
zcat <all.json | awk '{ rank = -1 } match($0, /"pid": [0-9]+/) {
        rank = substr($0, RSTART + 7, RLENGTH - 7) + 0 }
    rank < 8 { if (held != "") { if ($0 ~ /^ *\]/) sub(/,$/, "", held); print held } held = $0 }
    END { print held }' >part.json
for trace in all part; do
    "$foreline" plot timeline $trace.json --ranks 0-7 --from 1s --to 2s -o $trace.svg
    sed 's/all\.\|part\.//g' $trace.svg >$trace.picture
    tail -n +2 $trace.tsv >$trace.table
done
cmp all.picture part.picture
cmp all.table part.table
test "$(wc -l <all.table)" -gt 100
