#!/bin/sh
# Fail when a document links to a file or a section that is not there, or names in backticks a file of one
# of our folders that is not there; says where files of that name are. Results and decisions may name what
# was there when they were written. Headers begin with their own name and are guarded by their path (but the one that is installed).
# Usage: lint_links.sh SOURCE_DIR
cd "$1" || exit 2
folders=$(awk '/^[a-z]/ { print $1 }' folders.txt)
headers=0
# shellcheck disable=SC2086 # words
for header in $(find $folders -name '*.h' ! -path library/foreline.h); do
    name=$(sed -nE '1s#^/\* ([a-zA-Z0-9_]+\.h)[ :].*#\1#p' "$header")
    [ -z "$name" ] || [ "$name" = "$(basename "$header")" ] || { echo "$header:1: begins with $name" && headers=1; }
    guard=$(echo "$header" | tr 'a-z/.' 'A-Z__')
    grep -qx "#ifndef $guard" "$header" || { echo "$header: no guard $guard" && headers=1; }
done
# Sections: a link's #words are a heading of the page that it leads to, as GitHub makes them.
find . \( -name build -o -name .git \) -prune -o \( -name '*.md' -o -name llms.txt \) -print | awk '
function words(text) {
    gsub(/\]\([^)]*\)/, "", text)
    text = tolower(text)
    gsub(/[^a-z0-9 _-]/, "", text)
    gsub(/ /, "-", text)
    return text
}
function place(path,    n, i, k, part, out) { # without "." and ".."
    n = split(path, part, "/")
    for (i = k = 1; i <= n; i++)
        if (part[i] == "..") k--
        else if (part[i] != ".") part[k++] = part[i]
    for (i = 1; i < k; i++) out = out (i > 1 ? "/" : "") part[i]
    return out
}
{ file[++files] = place($0) }
END {
    for (i = 1; i <= files; i++) {
        code = line = 0
        while ((getline text < file[i]) > 0) {
            line++
            if (text ~ /^```/) code = !code
            if (!code && sub(/^#+ /, "", text)) {
                at = words(text)
                there[file[i] "#" at (seen[file[i], at]++ ? "-" seen[file[i], at] - 1 : "")] = 1
            }
            while (match(text, /\]\([^):]*#[^)]+\)/)) {
                link[++links] = substr(text, RSTART + 2, RLENGTH - 3)
                from[links] = file[i] ":" line
                text = substr(text, RSTART + RLENGTH)
            }
        }
    }
    for (k = 1; k <= links; k++) {
        split(link[k], part, "#")
        page = from[k]
        sub(/:[0-9]+$/, "", page)
        folder = page
        if (!sub(/[^\/]*$/, "", folder)) folder = ""
        target = part[1] == "" ? page : place(folder part[1])
        if (target ~ /\.md$/ && !((target "#" words(part[2])) in there)) {
            print from[k] ": " target " has no section #" part[2]
            bad = 1
        }
    }
    exit bad
}' || headers=1
pages=$(find docs -path docs/results -prune -o -path docs/decisions -prune -o -name '*.md' -print)
# shellcheck disable=SC2086 # words
{
    find . \( -name build -o -name .git \) -prune -o \( -name '*.md' -o -name llms.txt \) -print0 |
        xargs -0 grep -noHE '\]\([^)[:space:]]+\)' |
        grep -vE '\]\((https?|mailto):' |
        sed -E 's/^(\.\/)?([^:]*):([0-9]+):\]\(([^)#]*)[^)]*\)$/\2 \3 link \4/'
    grep -noHE '`[a-z_]+/[A-Za-z0-9_./-]+\.([ch]|cu|sh|cmake|py|md|xml|yml)`' ./*.md $pages |
        grep -v NAME |
        sed -E 's/^(\.\/)?([^:]*):([0-9]+):`(.*)`$/\2 \3 code \4/'
} |
    (
        status=$headers
        while read -r file line kind target; do
            [ -n "$target" ] || continue # a place in the same file
            path=$target
            if [ "$kind" = link ]; then
                path=$(dirname "$file")/$target
            elif [ ! -d "${target%%/*}" ]; then
                continue # another project's file
            fi
            [ ! -e "$path" ] || continue
            echo "$file:$line: $target is not there" \
                "$(find . -name build -prune -o -name "$(basename "$target")" -print | head -n 3)"
            status=1
        done
        exit $status
    )
