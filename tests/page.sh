#!/bin/sh
# Runs the commands that a page of docs/ shows ("    $ COMMAND", continued by "    > " lines), in order, in one empty folder.
# Each must succeed and print the lines shown below it, in that order ("...": any lines between them). Behind a command
# " # times are of the machine" compares only the first word of each line. RENEW=1 writes what is printed into the page.
# Usage: page.sh FORELINE PAGE
set -u
here=$(dirname "$(readlink -f "$0")")
foreline=$(readlink -f "$1") page=$(readlink -f "$2")
PATH=${foreline%/*}:$PATH
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
export XDG_CACHE_HOME="$dir/cache"
# The page's files are in a folder of their own: command.N, shown.N (lines), numbers.N (of these lines), measured.N (if so)
mkdir page work && cd page || exit 2
awk '/^    \$ / { n++; file = sprintf("command.%03d", n); shown = sprintf("shown.%03d", n)
        if (sub(/ *# times are of the machine$/, "")) { print > ("measured." substr(file, 9)) }
        print substr($0, 7) > file; printf "" > shown; next }
    /^    > / { print substr($0, 7) > file; next }
    /^    / { if ($0 != "    ...") { print substr($0, 5) > shown; print NR > ("numbers" substr(shown, 6)) } next }
    /^[^ ]/ { file = shown = "/dev/null" }' "$page"
cd ../work || exit 2
failed=0 calls=0 lines=0
for command in ../page/command.*; do
    n=${command##*.} shown=../page/shown.${command##*.}
    [ -e "$command" ] || break
    sed -i 's/foreline calibrate/& --repeats 1/' "$command" # the pages' times are not compared
    calls=$((calls + 1)) lines=$((lines + $(wc -l <"$shown")))
    sh "$command" >../out 2>&1 </dev/null || { echo "$(cat "$command"): $(tail -n 3 ../out)" && failed=1 && continue; }
    if [ -e "../page/measured.$n" ]; then
        awk '{ print $1 }' ../out >../words && mv ../words ../out
        awk '{ print $1 }' "$shown" >../words && mv ../words "$shown"
    fi
    sed -i 's/ *$//' ../out
    if [ "${RENEW:-}" = 1 ]; then
        [ -e "../page/measured.$n" ] || [ ! -s "$shown" ] ||
            "$here/renew_page.py" "$page" "../page/numbers.$n" "$shown" ../out || failed=1
        continue
    fi
    sed -E -i '/half of such runs/s/[0-9]+ %/N %/g' ../out "$shown" # every fit of constants changes it
    awk 'FILENAME == ARGV[1] { want[++n] = $0; next } $0 == want[at + 1] { at++ }
        END { if (at < n) { print "not printed, or not there: " want[at + 1]; exit 1 } }' "$shown" ../out ||
        { echo "  by: $(cat "$command")" && failed=1; }
done
# A page that this script misreads, or whose output lines are lost, tests nothing.
[ "$calls" -gt 0 ] && [ "$calls" = "$(grep -c '^    \$ ' "$page")" ] && [ "$lines" -gt 0 ] ||
    { echo "the page has $calls commands and $lines lines of output" && failed=1; }
exit $failed
