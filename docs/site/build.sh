#!/bin/sh
# The manual as a site, with the pages that the program writes; broken links fail. Exit 77: no mkdocs.
# Usage: build.sh FORELINE FOLDER
set -eu
command -v mkdocs >/dev/null || { echo "the site needs mkdocs: apt-get install --no-install-recommends mkdocs" >&2 && exit 77; }
FORELINE=$(readlink -f "$1")
folder=$(readlink -m "$2")
export FORELINE PYTHONDONTWRITEBYTECODE=1
mkdocs build --strict --quiet -f "$(dirname "$(readlink -f "$0")")/mkdocs.yml" -d "$folder"
echo "$folder/index.html"
