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

# MIB that such a file may have, how many it takes ('': what is said at last; nothing: it is read), command: with a factor
# that allows one MiB, and then as long as a message says what allows more
lifted() {
    mib=$1 enough=$2 last=$3 at=1 status=0
    factor=$(awk -v n="$mib" 'BEGIN { printf "%.9g", 1 / n }')
    shift 3
    while :; do
        FORELINE_LIMITS=size=$factor "$foreline" "$@" >out 2>err </dev/null
        status=$?
        next=$(sed -n 's/.*--limit size=\([0-9.e-]*\) (or FORELINE_LIMITS) to allow more$/\1/p' err)
        [ -n "$next" ] || break
        at=$((2 * at)) factor=$next
    done
    if [ "$at" != "$enough" ] || { [ -z "$last" ] && [ $status != 0 ]; } || ! grep -q -- "$last" out err; then
        echo "$*: enough at $at MiB, expected $enough; status $status: $(cat err)"
        failed=1
    fi
}

{ cat "$source/topologies/platforms/laptop.xml" && blank 1100; } >platform.xml
lifted 384 2 '' topology show platform.xml
{ cat "$corpus/import/foreline.json" && blank 1100; } >model.json
lifted 48 2 '' model show model.json
{ printf '{"a": [[]' && awk 'BEGIN { for (i = 0; i < 100000; i++) printf ",[]" }' && echo ']}'; } >values.json
lifted 48 4 'unknown model format' model show values.json
{ cat "$corpus/import/pipedream.txt" && blank 1100; } >graph.txt
lifted 256 2 '' model show graph.txt
{ cat "$cases/import-conf/input/hybrid.json" && blank 1100; } >hybrid.json
lifted 16 2 '' plan import hybrid.json
{ cat "$cases/topology-import-machine/input/dgx.txt" && blank 1100; } >machine.txt
lifted 32 2 '' topology import machine.txt -o machine.xml
{ cat "$cases/lab-kernels/input/products.csv" && blank 1100; } >products.csv
[ ! -x "${foreline%/*}/foreline-lab" ] || lifted 32 2 '' lab kernels products.csv --dtype bf16
{ awk 'BEGIN { for (i = 0; i < 100000; i++) print "a line of talk" }' && cat "$corpus/runs/megatron"; } >log
lifted 64 2 '' measurement import log
{ cat "$corpus/runs/kineto" && blank 1500; } | gzip >packed.gz
lifted 1024 2 '' measurement import packed.gz
exit $failed
