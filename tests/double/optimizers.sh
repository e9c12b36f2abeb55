#!/bin/sh
# Optimizers with their numbers, and updates without flush whose gradients are means, on the double: the CPU's losses
# within 1e-5, in bf16 within 5e-3; and each number changes what is trained. Usage: optimizers.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
# try LIMIT OPTIONS OF PLAN...
try() {
    limit=$1
    shift
    plan "$@" || fail "$*: $(cat plan.out)"
    run cpu tcp || fail "$* on the CPU: $(why)"
    losses >wanted
    DOUBLE_RACES=1 run cuda nccl || fail "$*: $(why)"
    losses | paste -d ' ' wanted - | awk -v most="$limit" '
        { d = ($1 - $2) / $1; d = d < 0 ? -d : d; n++; if (!($1 > 0 && d <= most)) bad = 1 }
        END { exit bad || n != 3 }' || fail "$*: $(losses | tr '\n' ' '), not $(tr '\n' ' ' <wanted)"
    hash_of >>hashes
    echo "$*: $(losses | tr '\n' ' ')"
}
platform=node:gpus=4
: >hashes
try 1e-5 --optimizer sgd
try 1e-5 --optimizer sgd:momentum=0.9
try 1e-5 --optimizer sgd:momentum=0.9,nesterov=1
try 1e-5 --optimizer sgd:decay=0.1 --stages 2
try 1e-5 --optimizer sgd:momentum=0.9,decay=0.1 --stages 1 --replicas 2 --zero 2
try 1e-5 --optimizer sgd:momentum=0.9,clip=0.1 --stages 1 --replicas 2
try 1e-5 --optimizer adam
try 1e-5 --optimizer adam:decay=0.5 --stages 2 --replicas 2 --zero 3
try 1e-5 --optimizer adam:clip=0.1,loss-scale=128 --stages 1
try 1e-5 --optimizer adam --schedule macrobatch --stages 2
dtype=bf16 try 5e-3 --optimizer sgd:momentum=0.9,decay=0.1,clip=0.1 --stages 1 --replicas 2
[ "$(sort -u hashes | wc -l)" = 11 ] || fail "two of these make the same parameters: $(cat hashes)"
