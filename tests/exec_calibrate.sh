#!/bin/sh
# What discover wrote of this machine calibrate completes; the result can be checked, planned for, simulated
# and run.
# Usage: exec_calibrate.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "FAIL: $*" >&2
    exit 1
}

"$bin/foreline" topology discover -o found.xml >said || fail "$(cat said)"
case $(cat said) in
discovery:\ [1-9]*\ devices\ on*no\ GPU\ here*) ranks="--platform found.xml@devices=2" ;;
*) ranks="--ranks 2" && echo "not checked: a platform of two cores, here are $(head -1 said)" ;;
esac
"$bin/foreline" calibrate --force $ranks --repeats 1 --table --matrix pairs.tsv --curves --largest 256KiB -o here.xml \
    >table 2>err || fail "$(cat err)"
[ "$(grep -cE '^[a-z]+\.(forward|backward|update) ' table)" = 28 ] || fail "13 kinds both ways and 2 updates, not $(cat table)"
grep -F "$work" here.xml && fail "a folder of this machine"
grep -q '^messages' table || fail "no messages in $(cat table)"
grep -q '^# all-reduce, 2 ranks, tcp' table || fail "no collectives in $(cat table)"
[ "$(grep -c ' float ' table)" = 20 ] || fail "four sizes of five tables, not $(cat table)"
[ "$(grep -c 'curve:[a-z-]*:2x1' here.xml)" = 8 ] || fail "four curves of each rank, not $(cat here.xml)"
[ "$(wc -l <pairs.tsv)" = 5 ] || fail "pairs: $(cat pairs.tsv)"
"$bin/foreline" topology check here.xml >out 2>&1 || fail "$(cat out)"
"$bin/foreline" topology show here.xml >out 2>&1 || fail "$(cat out)"
case $ranks in
--platform*)
    sed '/<\/host>/q' here.xml | grep -q 'value="4294967296B"' || fail "not the memory that discover wrote: $(cat out)"
    grep -q '^cpu  *2 .*n0g0$' out || fail "not the devices that discover wrote: $(cat out)"
    ;;
*) grep -q rank1 out || fail "no rank1 in $(cat out)" ;;
esac
"$bin/foreline" plan --algorithm balanced --model gpt-tiny --platform here.xml --stages 2 -o p.json >out 2>&1 ||
    fail "$(cat out)"
"$bin/foreline" simulate p.json -o predicted.json >out 2>&1 || fail "$(cat out)"
"$bin/foreline" run p.json --steps 1 --warmup 0 -o run.json >out 2>&1 || fail "$(cat out)"
"$bin/foreline" compare predicted.json run.json >out 2>&1 || fail "$(cat out)"
status=0
"$bin/foreline" calibrate --platform dgx-h100-x4 >out 2>&1 || status=$?
[ $status = 1 ] && grep -q 'calibrate measures CPU cores' out || fail "GPUs by ranks here: exit $status, $(cat out)"
status=0
"$bin/foreline" calibrate --platform here.xml --ranks 3 >out 2>&1 || status=$?
[ $status = 2 ] && grep -q 'has 2 devices' out || fail "--ranks 3: exit $status, $(cat out)"

# What an all-to-all took is what it is predicted to take: 100 s, when a curve says so.
for seconds in measured 100; do
    [ $seconds = measured ] || sed -i "s/\(curve:all-to-all:2x1\" value=\"\)[^\"]*/\14KiB@${seconds}s/" here.xml
    "$bin/foreline" plan --algorithm balanced --model rmoe:layers=2,hidden=32,heads=4,experts=4,tokens=16 \
        --platform here.xml --stages 1 --replicas 2 --expert-parallel 2 --microbatches 2 -o e.json >out 2>&1 ||
        fail "$(cat out)"
    "$bin/foreline" simulate e.json --engine analytic --json >$seconds.json 2>err || fail "$(cat err)"
    sed -n 's/.*"iteration_s": \([0-9.e+-]*\).*/\1/p' $seconds.json | head -n 1 >$seconds
done
awk 'NR == FNR { measured = $1; next } END { exit !(measured < 90 && $1 > 100) }' measured 100 ||
    fail "iterations of $(cat measured) and $(cat 100) s"
status=0
"$bin/foreline" calibrate --largest 2GiB >out 2>&1 || status=$?
[ $status = 1 ] && grep -q 'expected 16 KiB to 1 GiB' out || fail "--largest 2GiB: exit $status, $(cat out)"
ranks=$((4 * $(getconf _NPROCESSORS_ONLN)))
status=0
"$bin/foreline" calibrate --ranks $ranks >out 2>&1 || status=$?
[ $status = 1 ] && grep -q "$ranks.*ranks.*measured" out || fail "--ranks $ranks: exit $status, $(cat out)"
status=0
"$bin/foreline" calibrate --ranks 0 >out 2>&1 || status=$?
[ $status = 2 ] || fail "--ranks 0: exit $status"
status=0
"$bin/foreline" calibrate --device abacus >out 2>&1 || status=$?
[ $status = 2 ] || fail "--device abacus: exit $status"
status=0
FORELINE_WORKER=nowhere "$bin/foreline" calibrate --device cuda >out 2>&1 || status=$?
[ $status = 1 ] && grep -q 'foreline-worker-cuda exited with status 127: nowhere' out ||
    fail "--device cuda without a worker: exit $status, $(cat out)"
status=0
"$bin/foreline" calibrate --dtype bf16 >out 2>&1 || status=$?
[ $status = 2 ] || fail "--dtype bf16 on the CPU: exit $status"
status=0
"$bin/foreline" calibrate --transport pigeon >out 2>&1 || status=$?
[ $status = 2 ] || fail "--transport pigeon: exit $status"
cat table

# The same ranks started by mpirun; without it, one line says so.
status=0
env PATH=/nowhere "$bin/foreline" calibrate --transport mpi --repeats 1 >out 2>&1 || status=$?
[ $status = 1 ] && [ "$(wc -l <out)" = 1 ] || fail "no mpirun: exit $status, $(cat out)"
command -v mpirun >/dev/null && [ -x "$bin/foreline-worker-mpi" ] || {
    echo "not checked: Open MPI is not installed, or was not when this was built"
    exit 0
}
"$bin/foreline" calibrate --force --ranks 2 --repeats 1 --transport mpi --table -o mpi.xml >table 2>err ||
    fail "$(cat err)"
grep -q '^# all-reduce, 2 ranks, mpi' table || fail "no collectives in $(cat table)"
[ "$(grep -c ' float ' table)" = 40 ] || fail "eight sizes of five tables, not $(cat table)"
grep -q curve: mpi.xml && fail "curves that nobody asked for: $(cat mpi.xml)"
"$bin/foreline" topology check mpi.xml >out 2>&1 || fail "$(cat out)"

# A rank killed while it measures: mpirun says which.
"$bin/foreline" calibrate --ranks 2 --repeats 100 --transport mpi >out 2>err &
foreline=$!
tries=0
while :; do
    mpirun=$(cat "/proc/$foreline/task/$foreline/children" 2>/dev/null || true)
    rank=$(for m in $mpirun; do cat "/proc/$m/task/$m/children" 2>/dev/null || true; done)
    [ "$(echo $rank | wc -w)" -ge 2 ] && break
    tries=$((tries + 1))
    [ $tries -lt 200 ] || fail "no ranks: $(cat err)"
    sleep 0.1
done
sleep 1
kill -9 "$(echo $rank | cut -d' ' -f1)"
status=0
wait $foreline || status=$?
[ $status = 1 ] && grep -q 'rank [01] killed by signal 9' err || fail "exit $status: $(cat err)"
cat table
