#!/bin/sh
# Two jobs on two racks: each has a rack of its own, or half of both. Then draw figure.svg, the slowdown of A against the
# start of the second job.
set -e
plan() { # plan MODEL FILE
    foreline plan --algorithm balanced --model "$1" --platform two-racks --stages 1 --replicas 8 --microbatches 16 \
        --microbatch-size 8 --bucket 25MiB -o "$2" >plan.txt
}
plan gpt2-medium A.json
plan gpt2-small B.json
foreline simulate A.json B.json --place packed
foreline simulate A.json B.json --place spread

printf 'start_ms\tjobs\tslowdown\n' >starts.tsv
slowdown() { # slowdown NAME SECOND ITS_NAME PLACE
    for start in 0 50 100 150 200 250 300 350 400; do
        foreline simulate A.json "$2" --place "$4" --start "$3=${start}ms" --json >jobs.json 2>note.txt
        sed -n "s/.*\"slowdown\": \([0-9.]*\).*/$start\t$1\t\1/p" jobs.json | head -n 1 >>starts.tsv
    done
}
slowdown 'A and A, spread' A.json A.2 spread
slowdown 'A and B, spread' B.json B spread
slowdown 'A and B, packed' B.json B packed
foreline plot throughput starts.tsv --x start_ms --y slowdown --by jobs --xlabel 'start of the second job (ms)' \
    --ylabel 'slowdown of A' -o figure.svg
