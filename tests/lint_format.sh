#!/bin/sh
# Fail when a source differs from what clang-format makes of it. Usage: lint_format.sh SOURCE_DIR
cd "$1" || exit 2
command -v clang-format >/dev/null || { echo "skipped: clang-format is not installed"; exit 77; }
# shellcheck disable=SC2046 # words
find $(awk '/^[a-z]/ { print $1 }' folders.txt) tests bench examples -name '*.[ch]' -print0 |
    xargs -0 clang-format --dry-run --Werror
