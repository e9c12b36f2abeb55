#!/bin/sh
# MPI itself does not tell the others that a rank has died (docs/reference/launch.md): mpirun does, and ends
# them. Usage: mpirun_dead.sh PROGRAM [ARGUMENT...]
set -u
out=$(mktemp) && trap 'rm -f "$out"' EXIT
status=0
"$(dirname "$0")/mpirun.sh" 2 "$@" >"$out" 2>&1 || status=$?
[ $status = 77 ] && cat "$out" && exit 77
if [ $status = 0 ] || ! grep -q 'process rank 1 with PID .* exited on signal 9' "$out"; then
    echo "exit $status:"
    cat "$out"
    exit 1
fi
