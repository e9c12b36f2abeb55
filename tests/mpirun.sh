#!/bin/sh
# Run a test as N ranks of Open MPI on this machine, with the settings of exec/launch/mpi.c.
# Usage: mpirun.sh N PROGRAM [ARGUMENT...]
set -u
ranks=$1
shift
command -v mpirun >/dev/null || {
    echo "skipped: mpirun is not installed"
    exit 77
}
root=
[ "$(id -u)" = 0 ] && root=--allow-run-as-root
exec mpirun $root -n "$ranks" --bind-to none --oversubscribe --mca mpi_yield_when_idle 1 \
    --mca btl_tcp_eager_limit 2097152 --mca btl_tcp_max_send_size 2097152 \
    --mca btl_tcp_sndbuf 4194304 --mca btl_tcp_rcvbuf 4194304 \
    --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo "$@"
