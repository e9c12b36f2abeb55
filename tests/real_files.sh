#!/bin/sh
# Files of real machines beside the project import to what tests/real_files.tsv says of them.
# Usage: real_files.sh FORELINE; FORELINE_REAL names their folder (default: ../shared/workloads/real of the source)
here=$(dirname "$0")
for folder in "${FORELINE_REAL:-}" "$here/../../shared/workloads/real" "$here/../../../shared/workloads/real"; do
    [ -n "$folder" ] && [ -d "$folder/smi_topo" ] && break
    folder=
done
if [ -z "$folder" ]; then
    echo "skipped: no files of real machines; FORELINE_REAL=FOLDER says where some are"
    exit 77
fi
"$here/../bench/real_files.sh" "$1" "$folder" | diff "$here/real_files.tsv" -
