#!/bin/sh
# Every command explains itself: the first screen of --help fits 40 lines, says more than the summary and where the
# rest is; `--help all` and the topics that it names have every option of the man page, which troff takes without a warning.
# Usage: cli_help.sh FORELINE
set -u
tool=$1
failed=0
commands=$("$tool" help | awk '/^  [a-z]/ {print $1}')
[ -n "$commands" ] || { echo "foreline help lists no commands"; exit 1; }
for command in $commands; do
    [ "$command" != lab ] || continue # tests/lab.sh
    first=$("$tool" "$command" --help) || { echo "$command --help failed"; failed=1; }
    lines=$(printf '%s\n' "$first" | wc -l)
    { [ "$lines" -ge 8 ] && [ "$lines" -le 40 ]; } || { echo "$command --help has $lines lines"; failed=1; }
    topics=$(printf '%s\n' "$first" | sed -n "s/^  foreline $command --help \([a-z]*\) .*/\1/p")
    help=
    for topic in $topics; do
        text=$("$tool" "$command" --help "$topic") || { echo "$command --help $topic failed"; failed=1; }
        [ "$text" != "$first" ] || { echo "$command --help $topic is the first screen"; failed=1; }
        help="$help
$text"
    done
    page=$("$tool" manual "$command") || { echo "manual $command failed"; failed=1; }
    if command -v man >/dev/null; then
        warnings=$(printf '%s\n' "$page" | LC_ALL=C.UTF-8 man --warnings -E UTF-8 -Tutf8 -Z -l - 2>&1 >/dev/null)
        [ -z "$warnings" ] || { echo "manual $command: $warnings"; failed=1; }
    fi
    options=$(printf '%s\n' "$page" | sed -n 's/^\\fB\\-\\-\([a-z\\-]*\)\\fR.*/\1/p' | tr -d '\\')
    [ -n "$options" ] || [ "$command" = completion ] || { echo "$command has no options"; failed=1; }
    for option in $options; do
        printf '%s\n' "$help" | grep -q -- "  --$option" ||
            { echo "$command --help does not mention --$option"; failed=1; }
    done
done
# Published objectives, import and export are no part of plan's own list, and have theirs.
for screen in '--help papers|--machines|--launchable' 'export --help|--to|--zero' 'import --help|--set|--zero'; do
    words=${screen%%|*} options=${screen#*|}
    # shellcheck disable=SC2086 # words
    text=$("$tool" plan $words)
    printf '%s\n' "$text" | grep -q -- "^  ${options%|*} " || { echo "plan $words lacks ${options%|*}"; failed=1; }
    printf '%s\n' "$text" | grep -q -- "^  ${options#*|} " && { echo "plan $words has ${options#*|}"; failed=1; }
    "$tool" plan --help all | grep -q -- "^  ${options%|*} " && { echo "plan's list has ${options%|*}"; failed=1; }
done
exit $failed
