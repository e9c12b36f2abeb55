#!/bin/sh
# Fail when a text file of the repository names a path of the machine that it was written on. Home
# and working directories are refused everywhere, also behind "../" that climb to the root;
# directories for temporary files are refused in documents and data (sources and scripts may make
# files there). Without git every file outside build/ is looked at.
# Usage: lint_paths.sh SOURCE_DIR
cd "$1" || exit 2
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z
else
    find . \( -name build -o -name .git \) -prune -o -type f -print0
fi |
    xargs -0 grep -sIHnoE '(^|[^[:alnum:]_./~}*-]|\.\./)/?(work|root|home|Users|tmp|var/tmp|dev/shm)/[^[:space:]"<>)]*' |
    awk -F: '
{
    found = substr($0, length($1 FS $2 FS) + 1)
    if (found !~ /^.?\// && found !~ /^\.\.\//)
        next # a relative name, such as work/a.json
    scratch = found ~ /\/(tmp|var\/tmp|dev\/shm)\//
    document = $1 ~ /\.(md|tsv|json|xml|yml|yaml|svg|html|txt)$/ || $1 ~ /\/(output|error)$/
    if (scratch && !document)
        next
    print $1 ":" $2 ": names a path of one machine: " found
    bad = 1
}
END { exit bad }'
