#!/bin/sh
# Limits of files bite, and what each message says lifts them: files of a little more than a MiB, at limits of one.
# Usage: limits.sh FORELINE
set -u
foreline=$1 source=$(cd "$(dirname "$0")/.." && pwd) failed=0
corpus=$source/tests/fuzz/corpus cases=$source/tests/cli
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2

blank() { # KIBIBYTES of empty lines
    head -c "$1"k /dev/zero | tr '\0' '\n'
}

# LIMIT, the least number that is enough, what is said at last ('': nothing failed), command
lifted() {
    name=$1 enough=$2 last=$3 at=1 status=0
    shift 3
    while :; do
        FORELINE_LIMITS=$name=$at "$foreline" "$@" >out 2>err </dev/null
        status=$?
        next=$(sed -n 's/.*; --limit \([a-z]*=[0-9]*\) (FORELINE_LIMITS) allows more$/\1/p' err)
        [ -n "$next" ] && [ "$next" = "$name=$((2 * at))" ] || break
        at=$((2 * at))
    done
    if [ "$at" != "$enough" ] || { [ -z "$last" ] && [ $status != 0 ]; } || ! grep -q -- "$last" out err; then
        echo "$name: enough at $at, expected $enough; status $status: $(cat err)"
        failed=1
    fi
}

{ cat "$source/topologies/platforms/laptop.xml" && blank 1100; } >platform.xml
lifted file 2 '' topology show platform.xml
{ cat "$corpus/import/foreline.json" && blank 1100; } >model.json
lifted json 2 '' model show model.json
{ printf '{"a": [[]' && awk 'BEGIN { for (i = 0; i < 100000; i++) printf ",[]" }' && echo ']}'; } >values.json
lifted json 4 'not a model in a known format' model show values.json
{ cat "$corpus/import/pipedream.txt" && blank 1100; } >graph.txt
lifted model 2 '' model show graph.txt
{ cat "$cases/import-conf/input/hybrid.json" && blank 1100; } >hybrid.json
lifted arguments 2 '' plan import hybrid.json
{ cat "$cases/topology-import-machine/input/dgx.txt" && blank 1100; } >machine.txt
lifted machine 2 '' topology import machine.txt -o machine.xml
{ cat "$cases/lab-kernels/input/products.csv" && blank 1100; } >products.csv
[ ! -x "${foreline%/*}/foreline-lab" ] || lifted kernels 2 '' lab kernels products.csv --dtype bf16
{ awk 'BEGIN { for (i = 0; i < 100000; i++) print "a line of talk" }' && cat "$corpus/runs/megatron"; } >log
lifted log 2 '' measurement import log
{ cat "$corpus/runs/kineto" && blank 1500; } | gzip >packed.gz
lifted recorded 2 '' measurement import packed.gz
exit $failed
