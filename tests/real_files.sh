#!/bin/sh
# Files of real machines and programs beside the project import to what tests/real_PART.tsv says of them.
# Usage: real_files.sh FORELINE machines|programs; FORELINE_REAL names their folder (default: ../shared/workloads/real of the source)
here=$(dirname "$0")
for folder in "${FORELINE_REAL:-}" "$here/../../shared/workloads/real" "$here/../../../shared/workloads/real"; do
    [ -n "$folder" ] && [ -d "$folder/smi_topo" ] && break
    folder=
done
if [ -z "$folder" ]; then
    echo "skipped: no files of real machines; FORELINE_REAL=FOLDER says where some are"
    exit 77
fi
"$here/../bench/real_files.sh" "$1" "$folder" "$2" | diff "$here/real_$2.tsv" -
