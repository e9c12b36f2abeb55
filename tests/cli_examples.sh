#!/bin/sh
# The examples of all man pages, in the order of the commands, in one folder: each does what it is there for. One that
# measures a machine may find it too busy, one that captures no PyTorch. Then the folders of examples/, or those named: run.sh
# prints what the README shows and draws the figures beside it. RENEW=1 renews READMEs and figures.
# Usage: cli_examples.sh FORELINE SOURCE [EXAMPLE...]
set -u
here=$(dirname "$(readlink -f "$0")")
foreline=$(readlink -f "$1") source=$(readlink -f "$2")
shift 2
named=$*
PATH=${foreline%/*}:$PATH
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cp -r "$source/examples" "$dir/" && cd "$dir" || exit 2
export XDG_CACHE_HOME="$dir/cache"
failed=0

# manuals: each command of each man page.
manuals() {
    printf 'model,platform,stages,iteration_s\ngpt-tiny,laptop,2,90ms\ngpt-tiny,laptop,4,50ms\n' >runs.csv # measured ones
    for command in $("$foreline" help | awk '/^  [a-z]/ {print $1}'); do
        [ "$command" != lab ] && [ "$command" != explore ] || continue # tests/lab.sh, explore.py
        "$foreline" manual "$command" | sed -n '/^\.SH EXAMPLES/,$ { /^foreline/p }' | sed 's/\\-/-/g' >calls
        grep -q "^foreline $command" calls || { echo "$command has no example" && failed=1; }
        [ "$("$foreline" "$command" --help | sed -n '/^examples:/,$ { /^foreline/p }')" = "$(cat calls)" ] ||
            { echo "$command --help has other examples than its man page" && failed=1; }
        while IFS= read -r call; do
            sh -c "$call" </dev/null >out 2>err && continue
            [ "$command" = calibrate ] && grep -q 'busy' err && continue
            [ "$command" = capture ] && grep -q 'no PyTorch' err && continue
            echo "$call: $(tail -n 3 err)"
            failed=1
        done <calls
    done
    for file in rail.xml plan.json measured.json timeline.svg microbatches.html foreline.bash; do
        [ -s $file ] || { echo "no $file" && failed=1; }
    done
}

# drawn FIGURE: without foreline's version.
drawn() {
    grep -v '^<?foreline' "$1"
}

# figures NAME: those that the example drew are those of the repository, if the same gnuplot drew both. Measured ones differ, and
# are renewed where the example is named: the README's answer tells their numbers.
figures() {
    measured=$(grep -c '# times are of the machine' "examples/$1/README.md")
    for figure in "run/$1"/*.svg; do
        shipped=$source/examples/$1/${figure##*/}
        [ -s "$figure" ] || { echo "$1: no figure is drawn" && failed=1 && continue; }
        [ "$(wc -c <"$figure")" -le 60000 ] || { echo "$1/${figure##*/}: above 60 kB" && failed=1; }
        [ ! -s "$shipped" ] || [ "$(drawn "$figure")" != "$(drawn "$shipped")" ] || continue
        if [ "${RENEW:-}" = 1 ]; then
            [ -z "$named" ] && [ "$measured" = 1 ] && continue
            cp "$figure" "$shipped"
        elif [ ! -s "$shipped" ]; then
            echo "$shipped: not there" && failed=1
        elif [ "$measured" = 0 ] && [ "$(grep '<desc>' "$figure")" = "$(grep '<desc>' "$shipped")" ]; then
            echo "$shipped: another figure is drawn; look at both, then RENEW=1 $0 $foreline $source $1" && failed=1
        fi
    done
}

# example NAME: its README is run as a page of docs/ is, by run.sh of a copy of the folder.
example() {
    [ -s "examples/$1/README.md" ] || { echo "examples/$1 has no README.md" && failed=1 && return; }
    grep -q "($1/)" examples/README.md || { echo "examples/README.md has no row for $1" && failed=1; }
    [ -e "examples/$1/run.sh" ] || return # other tests run it
    if [ "$1" = capture ]; then
        PYTHON=/usr/bin/python3 && export PYTHON
        "$PYTHON" -c 'import torch' 2>/dev/null || { echo "$1: skipped, no PyTorch" && return; }
    fi
    mkdir -p run && cp -r "examples/$1" run/ && rm -f "run/$1"/*.svg
    sed "s#^    \$ sh run.sh#    \$ cd '$dir/run/$1' \&\& sh run.sh#" "examples/$1/README.md" >page.md
    "$here/page.sh" "$foreline" page.md || { echo "examples/$1/README.md" && failed=1; }
    [ "${RENEW:-}" != 1 ] || sed "s#cd '.*' && sh run.sh#sh run.sh#" page.md >"$source/examples/$1/README.md"
    figures "$1"
}

[ $# -gt 0 ] || { manuals && set -- examples/*/; }
for name in "$@"; do
    example "$(basename "$name")"
done
exit $failed
