#!/bin/sh
# Every command explains itself: --help exits 0, names every option of its man page and says more
# than the one-line summary. Usage: cli_help.sh FORELINE
set -u
tool=$1
failed=0
commands=$("$tool" help | awk '/^  [a-z]/ {print $1}')
[ -n "$commands" ] || { echo "foreline help lists no commands"; exit 1; }
for command in $commands; do
    [ "$command" != lab ] || continue # tests/lab.sh
    help=$("$tool" "$command" --help) || { echo "$command --help failed"; failed=1; }
    page=$("$tool" manual "$command") || { echo "manual $command failed"; failed=1; }
    options=$(printf '%s\n' "$page" | sed -n 's/^\\fB\\-\\-\([a-z\\-]*\)\\fR.*/\1/p' | tr -d '\\')
    [ -n "$options" ] || [ "$command" = completion ] || { echo "$command has no options"; failed=1; }
    for option in $options; do
        printf '%s\n' "$help" | grep -q -- "  --$option" ||
            { echo "$command --help does not mention --$option"; failed=1; }
    done
    [ "$(printf '%s\n' "$help" | wc -l)" -ge 8 ] || { echo "$command --help is too short"; failed=1; }
done
exit $failed
