#!/bin/sh
# Files of real machines and programs beside the project import to what tests/real_PART.tsv says of them.
# Usage: real_files.sh FORELINE FOLDER machines|programs
here=$(dirname "$0")
folder=$2
if [ ! -d "$folder/smi_topo" ]; then
    echo "skipped: no files of real machines in $folder; cmake -DFORELINE_WORKLOADS=FOLDER says where real/ is"
    exit 77
fi
"$here/../bench/real_files.sh" "$1" "$folder" "$3" | diff "$here/real_$3.tsv" -
