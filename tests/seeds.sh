#!/bin/sh
# Runs the rows of docs/results/seeds.md. In a table with the columns row, state, command, prints, test: each `line` of
# the command column is run in order, as if the names of foreline's commands were programs, and each `fragment`
# of the prints column must stand in what they print, in that order; each `unit.x` or `exec.x` of the test column
# must be a test, as must each `double.x` of the page where the double is built. Lines have a minute together.
# Usage: seeds.sh FORELINE BUILD PAGE [ROW...]
set -u
foreline=$(realpath "$1") build=$2 page=$(realpath "$3")
shift 3
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
ctest --test-dir "$build" -N | sed -n 's/^ *Test *#[0-9]*: //p' >"$dir/tests"

# row TAB command TAB prints TAB test; a bar inside backticks is written \|.
awk -F ' [|] ' '/^[|] (S[0-4]|D)-[0-9]+/ { gsub(/^[|] | [|]$/, ""); print $1 "\t" $3 "\t" $4 "\t" $5 }' "$page" >"$dir/rows"
[ -s "$dir/rows" ] || { echo "$page: no rows" >&2; exit 1; }
quoted() { # the texts between backticks, a line each
    printf '%s\n' "$1" | awk -F '`' '{ for (i = 2; i <= NF; i += 2) { gsub(/\\\|/, "|", $i); print $i } }'
}
"$foreline" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | while read -r name; do
    printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$foreline" "$name" >"$dir/$name" && chmod +x "$dir/$name"
done
failed=0 ran=0
for name in $(grep -o '`double[.][a-z_]*`' "$page" | tr -d '`' | sort -u); do
    ! grep -q '^double' "$dir/tests" || grep -qx "$name" "$dir/tests" ||
        { echo "there is no test $name" >&2; failed=$((failed + 1)); }
done
tab=$(printf '\t')
while IFS="$tab" read -r row command prints test; do
    id=${row%% *}
    [ $# = 0 ] || case " $* " in *" $id "*) ;; *) continue ;; esac
    quoted "$test" | grep -E '^[a-z]+\.' | grep -v '^bench' >"$dir/named"
    while read -r name; do
        grep -qx "$name" "$dir/tests" || { echo "$id: there is no test $name" >&2; failed=$((failed + 1)); }
    done <"$dir/named"
    quoted "$command" >"$dir/lines"
    [ -s "$dir/lines" ] || continue
    ran=$((ran + 1))
    mkdir "$dir/$id" || exit 1
    (cd "$dir/$id" && PATH="$dir:${foreline%/*}:$PATH" timeout 60 sh "$dir/lines") >"$dir/out" 2>&1 </dev/null
    quoted "$prints" >"$dir/fragments"
    [ -s "$dir/fragments" ] || { echo "$id: nothing is expected of its commands" >&2; failed=$((failed + 1)); }
    if ! awk 'NR == FNR { want[NR] = $0; n = NR; next }
        { rest = $0; while (at < n && (k = index(rest, want[at + 1]))) { rest = substr(rest, k + length(want[at + 1])); at++ } }
        END { if (at < n) { print want[at + 1]; exit 1 } }' "$dir/fragments" "$dir/out" >"$dir/missing"; then
        echo "$id: not printed: $(cat "$dir/missing")" >&2
        tail -n 5 "$dir/out" | cut -c1-200 >&2
        failed=$((failed + 1))
    fi
done <"$dir/rows"
echo "$(wc -l <"$dir/rows") rows, $ran run, $failed faults"
[ $failed = 0 ]
