#!/bin/sh
# The site is built without a warning (a link to a page that is not there is one), has every page of docs/, every command
# and every option, an index to search, and fetches nothing from the network. Usage: site.sh FORELINE SOURCE_DIR
set -u
foreline=$1 source=$2
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
"$source/docs/site/build.sh" "$foreline" "$dir/site" || exit $?
cd "$source/docs" || exit 2
failed=0
fail() {
    echo "$*"
    failed=1
}
for page in $(find . -name '*.md' | sed 's,^\./,,'); do
    [ -e "$dir/site/$(echo "$page" | sed 's/README\.md$/index.md/; s/\.md$/.html/')" ] || fail "no page of $page"
done
for command in $("$foreline" --help | awk '/^  [a-z]/ { print $1 }'); do
    page=$dir/site/reference/generated/foreline-$command.html
    [ -e "$page" ] || { [ "$command" = lab ] && continue; fail "no page of $command"; continue; }
    for option in $("$foreline" manual "$command" | sed -n 's/^\\fB\\-\\-\([a-z\\-]*\)\\fR.*/\1/p' | tr -d '\\'); do
        grep -q "id=\"$option\"" "$page" || fail "the page of $command lacks --$option"
    done
done
sections=$(grep -o '"location":' "$dir/site/search/search_index.js" | wc -l)
[ "$sections" -ge 200 ] || fail "the index has $sections sections"
grep -rnE '(src=|<link[^>]* href=)"(https?:)?//|url\(["'\'']?(https?:)?//|@import' "$dir/site" --include='*.html' --include='*.css' &&
    fail "a page fetches from the network"
exit $failed
