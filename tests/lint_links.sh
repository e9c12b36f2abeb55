#!/bin/sh
# Fail when a document links to a file that is not there. With a second argument, "code": also when it
# names a file of the sources in backticks that is not there; files of that name elsewhere are told.
# Usage: lint_links.sh SOURCE_DIR [code]
cd "$1" || exit 2
{
    find . \( -name 'build*' -o -name .git \) -prune -o -name '*.md' -print0 |
        xargs -0 grep -noHE '\]\([^)[:space:]]+\)' |
        grep -vE '\]\((https?|mailto):' |
        sed -E 's/^(\.\/)?([^:]*):([0-9]+):\]\(([^)#]*)[^)]*\)$/\2 \3 link \4/'
    [ "${2:-}" != code ] ||
        grep -noHE '`[a-z_]+/[A-Za-z0-9_./-]+\.([ch]|cu|sh|cmake|py|md|xml|yml)`' ./*.md docs/*.md \
            docs/objectives/*.md |
        grep -v NAME |
        sed -E 's/^(\.\/)?([^:]*):([0-9]+):`(.*)`$/\2 \3 code \4/'
} |
    (
        status=0
        while read -r file line kind target; do
            [ -n "$target" ] || continue # a place in the same file
            if [ "$kind" = link ]; then
                path=$(dirname "$file")/$target
            else
                path=$target
            fi
            [ ! -e "$path" ] || continue
            echo "$file:$line: $target is not there" \
                "$(find . -path './build*' -prune -o -name "$(basename "$target")" -print | head -n 3)"
            status=1
        done
        exit $status
    )
