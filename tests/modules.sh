#!/bin/sh
# The command starts without SimGrid, igraph and OpenBLAS, and says in one line which of its modules
# is missing when it needs one. Usage: modules.sh FORELINE
set -u
tool=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
failed=0
if ldd "$tool" | grep -E 'simgrid|igraph|blas'; then
    echo "is loaded at every start"
    failed=1
fi
mkdir "$dir/bin" && cp "$tool" "$dir/bin/foreline" && ln -s "${tool%/*/*}/share" "$dir/share" || exit 2
"$dir/bin/foreline" --version >"$dir/out" 2>&1 || { cat "$dir/out"; failed=1; }
"$dir/bin/foreline" topology show two-racks >"$dir/out" 2>"$dir/err"
status=$?
if [ $status != 1 ] || [ -s "$dir/out" ] || [ "$(wc -l <"$dir/err")" != 1 ] ||
    ! grep -q 'a part of foreline is missing: .*/simgrid.so: ' "$dir/err"; then
    echo "status $status: $(cat "$dir/err")"
    failed=1
fi
exit $failed
