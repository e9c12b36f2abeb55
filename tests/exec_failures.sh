#!/bin/sh
# Every rank of a plan with two stages and two replicas is killed and stopped while it starts, in the
# warm-up, in a later step and in an all-reduce. Each time the run must end with status 1 and
# one line that names rank, machine and op, and leave no process and no file.
# Usage: exec_failures.sh DIRECTORY_OF_BINARIES DIRECTORY_OF_TEST_BINARIES tcp|mpi
# (or, for one case: ... tcp|mpi RANK PHASE SIGNAL PLAN)
set -eu
bin=$(cd "$1" && pwd)
test_bin=$(cd "$2" && pwd)
transport=$3
tool=$bin/foreline
if [ "$transport" = mpi ]; then
    command -v mpirun >/dev/null && [ -x "$test_bin/failing_worker_mpi" ] || {
        echo "skipped: Open MPI is not installed, or was not when this was built"
        exit 77
    }
fi
unset RANK WORLD_SIZE

fail() {
    echo "FAIL: $*" >&2
    exit 1
}
processes() { # processes MARKER: what still runs with FAILURES=MARKER in its environment
    grep -lzsx "FAILURES=$1" /proc/[0-9]*/environ | sed 's|/proc/\([0-9]*\)/.*|\1|'
}

if [ $# = 7 ]; then
    rank=$4 phase=$5 signal=$6 plan=$7
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir "$work/tmp"
    status=0
    FAILURES=$work TMPDIR=$work/tmp FAIL="$rank $phase $signal" \
        FORELINE_WORKER=$test_bin/failing_worker_$transport \
        "$tool" run "$plan" --transport "$transport" --steps 6 --timeout 3s \
        >"$work/out" 2>"$work/err" || status=$?
    what="$transport, rank $rank, $phase, signal $signal"
    case $phase in
    meet) place="before it joined" ;;
    init | open) place="while starting" ;;
    warm-up) place="at [01]B[01] step 0" ;;
    steady) place="at [01]B[01] step 4" ;;
    allreduce) place="at [01]ALLREDUCE step 4" ;;
    esac
    case $transport-$phase-$signal in
    mpi-meet-9) verb=" \(killed by signal 9 (Killed)\|ended\)" ;; # mpirun does not always say how
    *-9) verb=" killed by signal 9 (Killed)" ;;
    *) verb=": timeout: no heartbeat for [.0-9]* s" ;;
    esac
    [ $status = 1 ] || fail "$what: exit $status, $(cat "$work/err")"
    [ "$(grep -c . "$work/err")" = 1 ] || fail "$what: not one line: $(cat "$work/err")"
    grep -q "^foreline run: rank $rank ([^ ]* on $(hostname))$verb $place\$" "$work/err" ||
        fail "$what: $(cat "$work/err")"
    tries=0 # mpirun cleans up behind its ranks
    while [ -n "$(processes "$work")$(ls -A "$work/tmp")" ]; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || fail "$what: left behind: $(processes "$work") $(find "$work/tmp")"
        sleep 0.1
    done
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$tool" plan --algorithm balanced --model gpt-tiny:layers=2,hidden=32,heads=2,tokens=32 \
    --platform laptop --microbatches 4 --stages 2 --replicas 2 --schedule 1f1b \
    -o "$work/plan.json" >"$work/out" 2>&1 || fail "plan: $(cat "$work/out")"
for signal in 9 19; do
    for phase in meet init open warm-up steady allreduce; do
        for rank in 0 1 2 3; do
            echo "$rank $phase $signal"
        done
    done
done >"$work/cases"
# mostly waiting: more runs at a time than cores
xargs -P 6 -I '{}' sh -c '"$@" '"{} $work/plan.json" sh "$0" "$bin" "$test_bin" "$transport" \
    <"$work/cases" || fail "$transport: see above"
echo "$transport: $(wc -l <"$work/cases") runs ended as they should"
