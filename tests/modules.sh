#!/bin/sh
# The command starts without SimGrid, igraph and OpenBLAS, plans and predicts on the analytic engine without loading
# any of its modules, and says in one line which module is missing when it needs one. Usage: modules.sh FORELINE
set -u
tool=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
failed=0
if ldd "$tool" | grep -E 'simgrid|igraph|blas'; then
    echo "is loaded at every start"
    failed=1
fi
cd "$dir" || exit 2

# The modules and libraries of SimGrid that a command and its children load: LD_DEBUG writes a file for each process.
loads() {
    rm -f loaded.*
    LD_DEBUG=files LD_DEBUG_OUTPUT=loaded "$tool" "$@" >out 2>&1 || cat out # and finds words that nobody expects
    sed -n 's#.*calling init: .*/\(lib/foreline/[a-z]*\.so\|libsimgrid[^/]*\|libns3[^/]*\)$#\1#p' loaded.* | sort -u | tr '\n' ' '
}
expect() {
    wanted=$1
    shift
    found=$(loads "$@")
    case $found in
    $wanted) ;;
    *) echo "$* loads '$found'" && failed=1 ;;
    esac
}
expect "" plan --model gpt-tiny --platform laptop --stages 2 --algorithm balanced -o plan.json
expect "" simulate --engine analytic plan.json
expect "lib/foreline/igraph.so " topology show rail:nodes=2,gpus=4
expect "lib/foreline/simgrid.so*libsimgrid*" simulate --engine simgrid plan.json # it would be seen

mkdir bin && cp "$tool" bin/foreline && ln -s "${tool%/*/*}/share" share || exit 2
bin/foreline --version >out 2>&1 || { cat out; failed=1; }
bin/foreline simulate --engine simgrid plan.json >out 2>err
status=$?
if [ $status != 1 ] || [ -s out ] || [ "$(wc -l <err)" != 1 ] ||
    ! grep -q 'a part of foreline is missing: .*/simgrid.so: ' err; then
    echo "status $status: $(cat err)"
    failed=1
fi
exit $failed
