#!/bin/sh
# The command starts without SimGrid, igraph, GLPK and OpenBLAS, plans and predicts on the analytic engine without loading
# any of its modules, and says in one line which module is missing when it needs one. Usage: modules.sh FORELINE
set -u
tool=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
failed=0
if ldd "$tool" | grep -E 'simgrid|igraph|glpk|blas|dnnl'; then
    echo "is loaded at every start"
    failed=1
fi
cd "$dir" || exit 2

# The modules, and libraries of SimGrid and of products, that a command and its children load: LD_DEBUG writes a file for each process.
loads() {
    rm -f loaded.*
    LD_DEBUG=files LD_DEBUG_OUTPUT=loaded "$tool" "$@" >out 2>&1 || cat out # and finds words that nobody expects
    sed -n 's#.*calling init: .*/\(lib/foreline/[a-z]*\.so\|libsimgrid[^/]*\|libns3[^/]*\|libopenblas[^/]*\|libdnnl[^/]*\)$#\1#p' loaded.* | sort -u | tr '\n' ' '
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
expect "" plan --algorithm list
expect "lib/foreline/papers.so " plan --algorithm greedy --model two-chains:ops=6 --devices 2
expect "lib/foreline/papers.so " model show tmlp:layers=1
expect "lib/foreline/igraph.so *" topology show rail:nodes=2,gpus=4
expect "lib/foreline/simgrid.so*libsimgrid*" simulate --engine simgrid plan.json # it would be seen

mkdir bin && cp "$tool" bin/foreline && ln -s "${tool%/*/*}/share" share || exit 2
bin/foreline --version >out 2>&1 || { cat out; failed=1; }
missing() { # missing MODULE ARGUMENTS...
    module=$1
    shift
    bin/foreline "$@" >out 2>err
    status=$?
    if [ $status != 1 ] || [ -s out ] || [ "$(wc -l <err)" != 1 ] ||
        ! grep -q "module not found: .*/$module.so" err; then
        echo "$*: status $status: $(cat err)"
        failed=1
    fi
}
missing simgrid simulate --engine simgrid plan.json
echo '{"nodes": [{"id": 1, "TMPCs": {}}], "edges": []}' >piper.json
echo 'node1 -- Conv2d -- forward_compute_time=1.0' >graph.txt
echo '{"module_to_stage_map": [0]}' >conf.json
printf 'module: models.vgg16.gpus=4\nmachines: [a:0]\nlog_directory: out\n' >driver.yml
missing papers plan --objective cpsc526 --model two-chains:ops=6 --devices 2
missing papers plan --algorithm greedy --model two-chains:ops=6 --devices 2
missing papers model show tmlp
missing papers model show piper.json
missing papers model show graph.txt
missing papers plan import conf.json
missing papers run --config driver.yml
grep -q 'install foreline-papers' err || { cat err; failed=1; }
# What is a table of names needs none.
bin/foreline plan --algorithm list | grep -q '^exhaustive ' && bin/foreline model list 2>err | grep -q '^gpt2-small ' &&
    grep -q '^this table lacks the models of the published papers: .*papers.so' err || { echo "lists: $(cat err)"; failed=1; }

# The module heeds the limits of the command, and its messages are the command's.
{ head -c 2000000 /dev/zero | tr '\0' ' '; echo '{"nodes": [], "maxFPGAs": 1}'; } >long.json
"$tool" plan --objective placement --model long.json --limit size=0.02 2>err && failed=1
grep -q 'limit size=' err || { cat err; failed=1; }
# Its temporary files go as the command's do when a signal ends it.
"$tool" plan --algorithm exhaustive --model gpt2-small --devices 6 --time-limit 1min --series s.csv >out 2>err &
pid=$!
for _ in $(seq 300); do
    ls s.csv.* >there 2>/dev/null && break
    sleep 0.1
done
kill -TERM $pid && wait $pid
[ -s there ] && ! ls s.csv* 2>err || { echo "a temporary file is left: $(cat there err)"; failed=1; }
exit $failed
