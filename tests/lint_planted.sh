#!/bin/sh
# The lints find an error planted in each folder of folders.txt. Usage: lint_planted.sh SOURCE_DIR
set -eu
source=$(cd "$1" && pwd)
tests=$source/tests
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$source/folders.txt" "$source/.clang-format" "$work"
cd "$work"
folders=$(awk '/^[a-z]/ { print $1 }' folders.txt)
mkdir tests bench package examples
for folder in $folders; do
    mkdir "$folder"
    above=library # which nobody may include but itself
    [ "$folder" != library ] || above=cli
    {
        printf '#include "%s/planted.h"\n' "$above"
        printf 'FILE *f = fopen("a", "w");\nconst double nap_s = 3;\nvoid planted(void)\n{\n'
        for _ in $(seq 60); do printf '  ;\n'; done
        printf '}\n'
    } >"$folder/planted.c"
    printf '/* other.h - planted */\n' >"$folder/planted.h"
done
mkdir core/base docs
printf '%0160d\n\n    %0200d\n```\n%0200d\n```\n%0161d\n' 1 1 1 1 >docs/planted.md
printf '# `A` section, there\n[a](#a-section-there) [b](../docs/planted.md#a-section-there) [c](#not-there)\n' >>docs/planted.md
echo '#include "core/engine/engine.h"' >core/base/planted.c
for lint in layers files size waits links format; do
    status=0
    "$tests/lint_$lint.sh" "$work" >"$lint.found" 2>&1 || status=$?
    [ "$status" -ne 77 ] || continue # its program is not installed
    for folder in $folders; do
        grep -q "^$folder/planted" "$lint.found" || { echo "lint_$lint.sh finds nothing in $folder/" && exit 1; }
    done
    [ "$lint" != layers ] || grep -q '^core/base/planted' "$lint.found" || { echo "nothing in core/base/" && exit 1; }
    [ "$lint" != size ] || [ "$(grep -c '^docs/planted.md:7: 161' "$lint.found")/$(grep -c '^docs' "$lint.found")" = 1/1 ] ||
        { echo "not the long line of a page alone: $(grep '^docs' "$lint.found")" && exit 1; }
    [ "$lint" != links ] || [ "$(grep -c 'no section' "$lint.found")" = "$(grep -c 'no section #not-there' "$lint.found")" ] ||
        { echo "not the link to no section alone: $(grep section "$lint.found")" && exit 1; }
    [ "$lint" != links ] || grep -q '^docs/planted.md:9: docs/planted.md has no section #not-there' "$lint.found" ||
        { echo "no link to a section that is not there: $(grep section "$lint.found")" && exit 1; }
    [ "$status" -ne 0 ] || { echo "lint_$lint.sh finds errors and succeeds" && exit 1; }
done
