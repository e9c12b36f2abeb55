#!/bin/sh
# Fail when a function is longer than 60 lines, from its brace to its brace, a file longer than 900, or a line
# longer than 100 columns; or a line of docs/ (without results and decisions) longer than 160 outside of code blocks.
# Usage: lint_size.sh SOURCE_DIR
cd "$1" || exit 2
status=0
# shellcheck disable=SC2046 # words
awk '
FNR == 1 { code = 0 }
/^ *```/ { code = !code }
length($0) > 160 && !code && !/^    / { print FILENAME ":" FNR ": " length($0) " columns, at most 160"; bad = 1 }
END { exit bad }' $(find docs -path docs/results -prune -o -path docs/decisions -prune -o -name '*.md' -print) || status=1
# shellcheck disable=SC2046 # words
find $(awk '/^[a-z]/ { print $1 }' folders.txt) bench -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' |
    sort | xargs awk '
FNR == 1 && file { if (lines > 900) long_file(file, lines) }
FNR == 1 { file = FILENAME; begin = 0 }
{ lines = FNR }
length($0) > 100 { print FILENAME ":" FNR ": " length($0) " columns, at most 100"; bad = 1 }
/^\{/ { begin = FNR }
/^\}/ && begin {
    if (FNR - begin + 1 > 60) {
        print FILENAME ":" begin ": a function of " FNR - begin + 1 " lines, at most 60"
        bad = 1
    }
    begin = 0
}
function long_file(name, n) { print name ": " n " lines, at most 900"; bad = 1 }
END { if (lines > 900) long_file(file, lines); exit bad }' || status=1
exit $status
