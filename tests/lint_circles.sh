#!/bin/sh
# Fail when files of different folders need each other: every symbol that an object takes from another
# one is an arrow, and no circle of arrows may leave a folder. Reads the objects of a build.
# Usage: lint_circles.sh SOURCE_DIR BUILD_DIR
folders=$(awk '/^[a-z]/ { print $1 }' "$1/folders.txt") || exit 2
cd "$2" || exit 2
for folder in $folders; do
    find "$folder" -path '*.dir/*' -name '*.o' ! -path '*smpi.dir*' 2>/dev/null
done | sort | xargs nm -A -g | awk '
# .../CMakeFiles/core.dir/lower/cost.c.o:0000 T symbol -> core/lower/cost.c
{
    split($1, head, ":"); path = head[1]
    sub(/CMakeFiles\/[^\/]*\.dir\//, "", path); sub(/\.o$/, "", path)
    kind = $(NF - 1); name = $NF
    if (kind == "U") { n++; user[n] = path; symbol[n] = name }
    else if (kind ~ /[TDBRVWC]/) home[name] = path
}
END {
    for (i = 1; i <= n; i++)
        if (symbol[i] in home && home[symbol[i]] != user[i])
            print user[i], home[symbol[i]]
}' | sort -u | awk '
# Files on a common circle reach each other: Tarjan, Depth-first search and linear graph algorithms
# (SIAM J. Computing 1, 1972).
function visit(v,    k, w, n) {
    low[v] = seen[v] = ++time; stack[++depth] = v; waits[v] = 1
    for (k = 1; k <= outs[v]; k++) {
        w = to[v, k]
        if (!(w in seen)) { visit(w); if (low[w] < low[v]) low[v] = low[w] }
        else if (waits[w] && seen[w] < low[v]) low[v] = seen[w]
    }
    if (low[v] != seen[v]) return
    members = ""; folders = 0; split("", folder)
    do {
        w = stack[depth--]; waits[w] = 0; members = members " " w
        n = w; sub(/\/[^\/]*$/, "", n)
        if (!(n in folder)) { folder[n] = 1; folders++ }
    } while (w != v)
    if (folders > 1) { print "circle across folders:" members; bad = 1 }
}
{ to[$1, ++outs[$1]] = $2; node[$1] = node[$2] = 1 }
END { for (v in node) if (!(v in seen)) visit(v); exit bad }'
