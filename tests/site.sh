#!/bin/sh
# The generated reference has every command, every option and every name; the site is built without a warning (a link to a
# page that is not there is one), has every page of docs/, an index to search, and fetches nothing from the network.
# Exit 77 without mkdocs, when the reference is right. Usage: site.sh FORELINE SOURCE_DIR
set -u
foreline=$1 source=$2
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
failed=0
fail() {
    echo "$*"
    failed=1
}
PYTHONDONTWRITEBYTECODE=1 "$source/docs/site/reference.py" "$foreline" "$dir/md" || exit 1
for command in $("$foreline" --help | awk '/^  [a-z]/ { print $1 }'); do
    page=$dir/md/foreline-$command.md
    [ -e "$page" ] || { [ "$command" = lab ] && continue; fail "no page of $command"; continue; }
    for option in $("$foreline" manual "$command" | sed -n 's/^\\fB\\-\\-\([a-z\\-]*\)\\fR.*/\1/p' | tr -d '\\'); do
        grep -q "id=\"$option\"" "$page" || fail "the page of $command lacks --$option"
    done
done
"$foreline" completion bash >"$dir/words"
for row in 'schedules:plan --schedule' 'collectives:simulate --collective' 'frameworks:plan --framework'; do
    words=$(sed -n "s/^    '${row#*:}') echo \"\(.*\)\" ;;/\1/p" "$dir/words")
    [ "$(echo "$words" | wc -w)" -ge 5 ] || fail "few words of ${row#*:}: $words"
    for word in $words; do
        [ "$word" = auto ] || grep -q "^| <code>$word</code> |" "$dir/md/${row%%:*}.md" || fail "${row%%:*}.md lacks $word"
    done
done
[ $failed = 0 ] || exit 1
"$source/docs/site/build.sh" "$foreline" "$dir/site" || exit $?
cd "$source/docs" || exit 2
for page in $(find . -name '*.md' | sed 's,^\./,,'); do
    [ -e "$dir/site/$(echo "$page" | sed 's/README\.md$/index.md/; s/\.md$/.html/')" ] || fail "no page of $page"
done
sections=$(grep -o '"location":' "$dir/site/search/search_index.js" | wc -l)
[ "$sections" -ge 200 ] || fail "the index has $sections sections"
grep -rnE '(src=|<link[^>]* href=)"(https?:)?//|url\(["'\'']?(https?:)?//|@import' "$dir/site" --include='*.html' --include='*.css' &&
    fail "a page fetches from the network"
exit $failed
