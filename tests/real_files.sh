#!/bin/sh
# Files of real machines and programs beside the project import to what tests/real_PART.txt says of them,
# prose apart (words.awk); with RENEW=1 that file is written. Usage: real_files.sh FORELINE FOLDER machines|programs
here=$(dirname "$0")
folder=$2 golden=$here/real_$3.txt
if [ ! -d "$folder/smi_topo" ]; then
    echo "skipped: no files of real machines in $folder; cmake -DFORELINE_WORKLOADS=FOLDER says where real/ is"
    exit 77
fi
fresh=$(mktemp) && trap 'rm -f "$fresh"' EXIT
"$here/../bench/real_files.sh" "$1" "$folder" "$3" | awk -v golden="$golden" -f "$here/words.awk" >"$fresh"
if [ "${RENEW:-}" = 1 ]; then cp "$fresh" "$golden"; else diff "$golden" "$fresh"; fi
