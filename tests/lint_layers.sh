#!/bin/sh
# Fail when a file includes a folder or a library it may not know (docs/architecture.md).
# Usage: lint_layers.sh SOURCE_DIR
cd "$1" || exit 2
grep -rn '^ *# *include' core measured model topologies partition sim exec plots study cli library \
    --include='*.[ch]' --include='*.cu' |
awk -F: '
BEGIN {
    # Siblings meet in core; study stands above them, cli above study.
    n = split("measured model topologies partition sim exec plots", lib, " ")
    ok["core core"] = ok["study core"] = ok["cli core"] = 1
    ok["plots measured"] = 1 # traces are read as those of other programs are
    ok["library library"] = ok["library core"] = ok["library study"] = 1
    ok["study study"] = ok["cli cli"] = ok["cli study"] = 1
    for (i = 1; i <= n; i++)
        ok[lib[i] " core"] = ok[lib[i] " " lib[i]] = ok["study " lib[i]] = ok["cli " lib[i]] = 1
    only["jansson"] = "core"; only["nettle"] = "core"; only["igraph"] = "partition"
    only["metis"] = "partition"; only["glpk"] = "partition/published"
    only["simgrid"] = only["xbt"] = "sim/simgrid"; only["cblas"] = "exec"; only["mpi"] = "exec"
    only["cuda"] = "exec"; only["nccl"] = "exec"
    only["yaml"] = only["expat"] = "topologies"; only["hwloc"] = "topologies/machine"; only["sqlite3"] = "study|measured"; only["zlib"] = "measured"
}
{
    split($1, path, "/"); from = path[1]
    if (match($0, /"[^"]*"/)) {
        header = substr($0, RSTART + 1, RLENGTH - 2)
        split(header, to, "/")
        if (!((from " " to[1]) in ok)) { print $0 "   <- " from " may not include " to[1]; bad = 1 }
        # The reproduced papers stand above the planner, never below it.
        if (from == "partition" && path[2] != "published" && header ~ /^partition\/published\//) {
            print $0 "   <- the planner may not include partition/published"; bad = 1
        }
    } else if (match($0, /<[^>]*>/)) {
        header = substr($0, RSTART + 1, RLENGTH - 2)
        split(header, name, /[\/.]/)
        if (name[1] in only && $1 !~ "^(" only[name[1]] ")/") {
            print $0 "   <- only " only[name[1]] " may include " name[1]; bad = 1
        }
    }
}
END { exit bad }'
