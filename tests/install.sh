#!/bin/sh
# What cmake --install leaves can be moved, and works with nothing in the environment: plan, simulate, run. Usage: install.sh BUILD
set -u
build=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
fail() {
    echo "$*" >&2
    exit 1
}
DESTDIR=$dir/staged cmake --install "$build" >"$dir/log" 2>&1 || fail "$(tail -n 5 "$dir/log")"
bin=$(find "$dir/staged" -type f -name foreline -path '*/bin/foreline')
mv "${bin%/bin/foreline}" "$dir/elsewhere" && rm -rf "$dir/staged" || fail "no prefix around '$bin'"
mkdir "$dir/work" && cd "$dir/work" || exit 1
call() {
    env -i HOME="$dir/work" PATH=/usr/bin:/bin ${ASAN_OPTIONS+"ASAN_OPTIONS=$ASAN_OPTIONS"} "$dir/elsewhere/bin/foreline" "$@" \
        >"$dir/log" 2>&1 || fail "foreline $*: $(tail -n 5 "$dir/log")"
}
call topology list --json
grep -q "\"path\": \"$dir/elsewhere/share/foreline/platforms/two-racks.xml\"" "$dir/log" || fail "$(cat "$dir/log")"
call plan --model gpt-tiny:layers=2,hidden=32,tokens=32 --platform laptop --algorithm hierarchical --stages 2 -o p.json
call simulate p.json --engine simgrid
call run p.json --steps 2
printf '3 1 2\n2\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0\n' >net.txt
call topology import net.txt # by a program of tools/
[ ! -x "$dir/elsewhere/bin/foreline-worker-mpi" ] || call run p.json --steps 2 --transport mpi
for file in share/man/man1/foreline-plan.1 share/bash-completion/completions/foreline \
    share/zsh/site-functions/_foreline share/fish/vendor_completions.d/foreline.fish; do
    [ -s "$dir/elsewhere/$file" ] || fail "no $file"
done
