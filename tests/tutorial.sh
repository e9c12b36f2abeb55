#!/bin/sh
# Every command of docs/tutorial.md, or of one section ("## NAME") of another page, from the page itself, in one folder:
# it ends well and prints the lines that the page shows, in that order ("...": others between them; of measured times only
# the first word counts). With RENEW=1 the page shows then what is printed. Usage: tutorial.sh FORELINE PAGE [NAME]
set -u
here=$(dirname "$(readlink -f "$0")")
foreline=$1 page=$(readlink -f "$2")
PATH=${foreline%/*}:$PATH
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
export XDG_CACHE_HOME="$dir/cache"
# Each call is a folder: command, and shown (lines; the file `measured` where times are of the machine)
awk -v section="${3:+## $3}" '/^## / { skip = section != "" && $0 != section }
    skip || (section != "" && !seen && !/^## /) { next } # what is before the first heading, too
    { seen = 1 }
    /^    \$ / { n++; file = sprintf("command.%03d", n); shown = sprintf("shown.%03d", n)
        if (sub(/ *# times are of the machine$/, "")) { print > ("measured." substr(file, 9)) }
        print substr($0, 7) > file; printf "" > shown; next }
    /^    > / { print substr($0, 7) > file; next }
    /^    / { if ($0 != "    ...") { print substr($0, 5) > shown; print NR > ("numbers" substr(shown, 6)) } next }
    /^[^ ]/ { file = shown = "/dev/null" }' "$page"
failed=0 calls=0 lines=0
for command in command.*; do
    n=${command#command.}
    sed -i 's/foreline calibrate/& --repeats 1/' "$command" # the pages' times are not compared
    calls=$((calls + 1)) lines=$((lines + $(wc -l <"shown.$n")))
    sh "$command" >out 2>&1 </dev/null || { echo "$(cat "$command"): $(tail -n 3 out)" && failed=1 && continue; }
    if [ -e "measured.$n" ]; then
        awk '{ print $1 }' out >words && mv words out
        awk '{ print $1 }' "shown.$n" >words && mv words "shown.$n"
    fi
    sed -i 's/ *$//' out
    if [ "${RENEW:-}" = 1 ]; then
        [ -e "measured.$n" ] || [ ! -s "shown.$n" ] || "$here/renew_page.py" "$page" "numbers.$n" "shown.$n" out || failed=1
        continue
    fi
    sed -E -i '/half of such runs/s/[0-9]+ %/N %/g' out "shown.$n" # every fit of constants changes it
    awk 'FILENAME == ARGV[1] { want[++n] = $0; next } $0 == want[at + 1] { at++ }
        END { if (at < n) { print "not printed, or not there: " want[at + 1]; exit 1 } }' "shown.$n" out ||
        { echo "  by: $(cat "$command")" && failed=1; }
done
[ -n "${3:-}" ] && least=1 || least=10 # what a page cut short would not have
[ $calls -ge $least ] && [ $lines -ge $((2 * least)) ] || { echo "the page has $calls commands and $lines lines" && failed=1; }
exit $failed
