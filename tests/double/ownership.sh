#!/bin/sh
# NCCL's collectives and rounds of sends over NCCL: the latter have the bits of the other transports, who
# owns which part of what ZeRO divides is in the checkpoint, and a rank that dies is named.
# Usage: ownership.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
silence=30s patience=60

fail() {
    echo "FAIL: $*: $(why)" >&2
    exit 1
}
near() { # near FILE FILE: losses, within 1e-5
    paste "$1" "$2" | awk '{ d = $1 - $2; if (d * d > 1e-10 || $2 == "") exit 1 }'
}

microbatches=6
for options in "--stages 1 --replicas 3 --zero 1" "--stages 2 --replicas 2 --zero 3" "--stages 1 --replicas 2 --tensor-parallel 2 --bucket 20KB"; do
    # shellcheck disable=SC2086 # several words
    plan $options || fail "plan $options"
    run cuda tcp || fail "tcp $options"
    tcp=$(hash_of)
    run cuda nccl --collective ring || fail "ring $options"
    [ "$(hash_of)" = "$tcp" ] || fail "$options: a ring over nccl has other bits than over tcp"
    cat log.* | grep -v '^#' | cut -f 4 | sort -u | grep -qv 'Send\|Recv' && fail "$options: a ring calls more than sends"
    losses >ring
    run cuda nccl || fail "nccl $options"
    losses >own
    near ring own || fail "$options: losses $(tr '\n' ' ' <own), not $(tr '\n' ' ' <ring)"
    cat log.* | grep -v '^#' | cut -f 4 | grep -q 'Send\|Recv' && [ "${options#--stages 2}" = "$options" ] &&
        fail "$options: NCCL's own collectives send"
done

# Three owners of numbers that are no multiple of three.
plan --stages 1 --replicas 3 --zero 2 || fail plan
run cuda nccl && whole=$(hash_of) || fail "3 steps"
steps=2 run cuda nccl --checkpoint "$work/kept" || fail "2 steps"
steps=1 run cuda nccl --resume "$work/kept" && [ "$(hash_of)" = "$whole" ] || fail "a resumed run is another one"
steps=1 run cuda nccl --resume "$work/kept" --collective ring && fail "parts of NCCL's taken for the ring's"
grep -q "parts.*--collective.*nccl" err || fail "not said why"
plan --stages 1 --replicas 3 || fail plan
steps=2 run cuda nccl --checkpoint "$work/whole" || fail "without ZeRO"
steps=1 run cuda nccl --resume "$work/whole" --collective ring || fail "nothing is divided, yet refused"
run cuda nccl --collective hierarchical && fail "no such rounds"
grep -q "real runs support auto, ring, tree, nccl" err || fail "not said what real runs can do"

# All end soon after one, whoever it is.
plan --stages 2 --replicas 2 || fail plan
for victim in 0 3; do
    begin=$(date +%s)
    DOUBLE_FAULTS=kill:25@$victim steps=50 run cuda nccl && fail "rank $victim did not die"
    [ $(($(date +%s) - begin)) -lt 30 ] || fail "$(($(date +%s) - begin)) s until the others had ended"
    [ "$(grep -c 'foreline run:' err)" = 1 ] && grep -q "rank $victim .*killed by signal 9" err || fail "rank $victim is not named"
done
echo "rings over nccl have the bits of tcp; checkpoints know who owns what; the dead are named"
