#!/bin/sh
# Fail when a file includes a folder or a library it may not know (docs/architecture.md).
# Usage: lint_layers.sh SOURCE_DIR
cd "$1" || exit 2
grep -rn '^ *# *include' core model topologies partition sim sweep exec plots cli \
    --include='*.[ch]' --include='*.cu' |
awk -F: '
BEGIN {
    n = split("model topologies partition sim sweep exec plots", lib, " ")
    ok["core core"] = ok["cli core"] = ok["cli cli"] = 1
    for (i = 1; i <= n; i++)
        ok[lib[i] " core"] = ok[lib[i] " " lib[i]] = ok["cli " lib[i]] = 1
    only["jansson"] = "core"; only["nettle"] = "core"; only["igraph"] = "partition"
    only["glpk"] = "partition"
    only["simgrid"] = "sim"; only["xbt"] = "sim"; only["cblas"] = "exec"; only["mpi"] = "exec"
    only["cuda"] = "exec"; only["nccl"] = "exec"
    only["yaml"] = "sweep"; only["sqlite3"] = "sweep"
}
{
    split($1, path, "/"); from = path[1]
    if (match($0, /"[^"]*"/)) {
        split(substr($0, RSTART + 1, RLENGTH - 2), to, "/")
        if (!((from " " to[1]) in ok)) { print $0 "   <- " from " may not include " to[1]; bad = 1 }
    } else if (match($0, /<[^>]*>/)) {
        header = substr($0, RSTART + 1, RLENGTH - 2)
        split(header, name, /[\/.]/)
        if (name[1] in only && only[name[1]] != from) {
            print $0 "   <- only " only[name[1]] " may include " name[1]; bad = 1
        }
    }
}
END { exit bad }'
