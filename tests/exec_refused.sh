#!/bin/sh
# Ranks with torchrun's environment that do not fit together: each one's own shell says why, soon, and with both words.
# Usage: exec_refused.sh FORELINE
set -u
tool=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
unset RANK WORLD_SIZE FORELINE_WORKER
export TMPDIR="$work/tmp"
mkdir tmp
port=$((10000 + $$ % 20000))

fail() {
    echo "FAIL: $*" >&2
    exit 1
}
plan() { # plan FILE SCHEDULE
    "$tool" plan --algorithm balanced --model gpt-tiny:layers=2,hidden=8,heads=1,tokens=4 --platform laptop \
        --microbatches 4 --stages 2 --schedule "$2" -o "$1" >out 2>&1 || fail "plan: $(cat out)"
}
rank() { # rank N PLAN OPTIONS...
    number=$1
    file=$2
    shift 2
    RANK=$number WORLD_SIZE=2 LOCAL_RANK=$number MASTER_ADDR=localhost MASTER_PORT=$port \
        "$tool" run "$file" --launcher env --steps 1 "$@" >"$number.out" 2>"$number.err"
}
plan p.json 1f1b
plan q.json gpipe

rank 0 p.json &
pid=$!
rank 1 q.json && fail "another schedule runs"
wait $pid && fail "rank 0 runs with another schedule"
for r in 0 1; do
    grep -q 'rank 1 .* has schedule gpipe, but rank 0 has 1f1b$' $r.err || fail "rank $r, schedule: $(cat $r.err)"
done

# Another token: rank 1 is told at once, rank 0 says so while it waits for the right one, which may still come.
export FORELINE_TOKEN=00112233445566778899aabbccddeeff
rank 0 p.json &
pid=$!
began=$(date +%s)
FORELINE_TOKEN=00112233445566778899aabbccddeef0 rank 1 p.json && fail "another token runs"
[ $(($(date +%s) - began)) -lt 10 ] || fail "another token: known after $(($(date +%s) - began)) s"
grep -q "token differs.*token of rank 0.*FORELINE_TOKEN" 1.err || fail "rank 1, token: $(cat 1.err)"
until grep -q '^1 process.*FORELINE_TOKEN' 0.err; do
    [ $(($(date +%s) - began)) -lt 10 ] || fail "rank 0 does not speak of tokens: $(cat 0.err)"
    sleep 0.1
done
rank 1 p.json || fail "the right token: $(cat 1.err)"
wait $pid || fail "rank 0: $(cat 0.err)"
[ -z "$(ls tmp)" ] || fail "left behind: $(ls tmp)"
# Without mpirun every process is MPI's only one, whatever WORLD_SIZE says.
if [ -x "$(dirname "$tool")/foreline-worker-mpi" ]; then
    rank 0 p.json --transport mpi && fail "runs over MPI without mpirun"
    grep -q 'MPI.*1.*process.*2.*-np.*2' 0.err ||
        fail "MPI without mpirun: $(cat 0.err)"
    # A rank that has hung up by itself does not hide from rank 0 why the run is refused.
    rank 0 p.json &
    pid=$!
    rank 1 p.json --transport mpi && fail "runs over two transports"
    wait $pid && fail "rank 0 runs over another transport"
    grep -q 'rank 1 .* has --transport mpi, but rank 0 has tcp$' 0.err || fail "transports: $(cat 0.err)"
fi
echo done
