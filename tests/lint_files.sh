#!/bin/sh
# Fail when a file is written otherwise than through core/base/file.h (a temporary file beside it, fsync, rename),
# but for the places below, each with its reason. Usage: lint_files.sh SOURCE_DIR
cd "$1" || exit 2
folders=$(awk '/^[a-z]/ { print $1 }' folders.txt)
reasons='
core/base/file.c:1 the writer itself
host/leftover.c:1 the temporary file of the writer, while no signal ends us
host/folder.c:1 the marker of a folder of ours, before anything else in it
exec/netns/remote.c:1 an empty file, to mount a namespace on
exec/transport/mpi/smpi_worker.c:1 ranks write into one file, each at its place, in a folder of ours
exec/worker.c:1 a log, which grows while the run lasts
papers/bench/partition_random.c:1 what an exact search found, for the next run of a benchmark
study/captured.c:1 a lock, which has no text
study/database.c:1 a lock, whose text means nothing
study/validate_setup.c:1 a log, which grows while runs last'
# shellcheck disable=SC2086 # words
grep -rnE --include='*.c' --include='*.h' 'fopen\([^)]*"[wa]|O_CREAT|mkstemps?\(|mkostemp|[^_[:alnum:]]creat\(|freopen\(' \
    $folders package |
    awk -F: -v reasons="$reasons" '
BEGIN { n = split(reasons, line, "\n"); for (i = 1; i <= n; i++) { split(line[i], at, /[: ]/); may[at[1]] = at[2] } }
++seen[$1] > may[$1] { print $1 ":" $2 ": a file written otherwise than through core/base/file.h"; bad = 1 }
END {
    for (f in may) if (f != "" && seen[f] + 0 < may[f]) { print f ": its exception in lint_files.sh is not needed"; bad = 1 }
    exit bad
}'
