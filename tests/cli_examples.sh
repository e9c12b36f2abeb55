#!/bin/sh
# The examples of all man pages, in the order of the commands, in one folder: each does what it is there for. One that
# measures a machine may find it too busy, one that captures no PyTorch. Usage: cli_examples.sh FORELINE SOURCE
set -u
foreline=$1
PATH=${foreline%/*}:$PATH
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cp -r "$2/examples" "$dir/" && cd "$dir" || exit 2
export XDG_CACHE_HOME="$dir/cache"
failed=0
for command in $("$foreline" help | awk '/^  [a-z]/ {print $1}'); do
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
exit $failed
