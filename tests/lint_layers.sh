#!/bin/sh
# Fail when a file includes a folder or a library it may not know (folders.txt).
# Usage: lint_layers.sh SOURCE_DIR
cd "$1" || exit 2
folders=$(awk '/^[a-z]/ { print $1 }' folders.txt)
# shellcheck disable=SC2086 # words
grep -rn '^ *# *include' $folders --include='*.[ch]' --include='*.cu' |
grep -v '^[a-z]*/bench/' | # programs beside the tests
awk -F: '
BEGIN {
    while ((getline row < "folders.txt") > 0) {
        n = split(row, word, " ")
        if (word[1] !~ /^[a-z]/) continue
        ok[word[1] " " word[1]] = 1
        for (i = 3; i <= n; i++) ok[word[1] " " word[i]] = 1
    }
    n = split("base strategy schedule data cost collective lower engine", word, " ") # of core, lowest first
    for (i = 1; i <= n; i++) level[word[i]] = i
    only["jansson"] = "core"; only["nettle"] = "core"; only["igraph"] = "partition"
    only["metis"] = "partition"; only["glpk"] = "papers"; only["microhttpd"] = "explore"
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
        if (from == "core" && to[1] == "core" && (!(to[2] in level) || level[path[2]] < level[to[2]])) {
            print $0 "   <- core/" path[2] " may not include core/" to[2]; bad = 1
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
