#!/bin/sh
# A run that this machine cannot hold is refused in one line before a rank is started, and what many ranks have to
# say alike is said once.
# Usage: capacity.sh FORELINE
set -u
tool=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
export TMPDIR="$dir/tmp"
mkdir tmp
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
refused() { # refused PATTERN COMMAND...: one line, nothing started, nothing left
    pattern=$1
    shift
    status=0
    "$@" >out 2>err || status=$?
    [ $status = 1 ] && [ "$(wc -l <err)" = 1 ] && grep -q "$pattern" err ||
        fail "expected '$pattern': exit $status, $(head -5 err)"
    [ ! -e started ] || fail "a worker was started"
    [ -z "$(ls tmp)" ] || fail "left behind: $(ls tmp)"
}
"$tool" plan --algorithm balanced --model gpt3-175b --platform rail:nodes=4,gpus=8 --tensor-parallel 8 --stages 4 \
    --microbatches 4 --microbatch-size 1 -o big.json >out 2>&1 || fail "plan: $(cat out)"
"$tool" plan --algorithm balanced --model gpt-tiny:layers=2,hidden=16,heads=2,tokens=16 --platform laptop --microbatches 4 \
    --stages 2 --replicas 2 -o p.json >out 2>&1 || fail "plan: $(cat out)"
real=$(dirname "$tool")/foreline-worker
cat >stub <<END
#!/bin/sh
touch "$dir/started"
exit 1
END
cat >lost <<END
#!/bin/sh
shift 2
exec "$real" --program /nowhere/program.json "\$@"
END
chmod +x stub lost
FORELINE_WORKER=$dir/stub && export FORELINE_WORKER
refused '^foreline run: out of memory: 32 ranks .* [0-9.]* [TP]iB .*--limit overcommit=[0-9]*' \
    "$tool" run big.json --compute real --steps 1
refused '^foreline run: 4 ranks need 68 open files, .* 40; .*ulimit -n 68$' \
    sh -c 'ulimit -n 40; exec "$0" run p.json --steps 1' "$tool"
"$tool" run big.json --steps 1 --compute real --limit overcommit=1048576 >out 2>err && fail "the stub trains"
[ -e started ] || fail "--limit overcommit does not try: $(cat err)"
rm started

# All four have lost the program.
FORELINE_WORKER=$dir/lost
refused '^foreline run: rank 0 (rank0 on .*: .*TMPDIR .* /nowhere/program.json: No such file or directory (and 3 other ranks)$' \
    "$tool" run p.json --steps 1
