#!/bin/sh
# The manual (README.md and docs/ without docs/results) stays short: at most 45,000 words in all (a word has a letter or a
# digit), 25 kB a page, 90 lines of README.md. Prints what it has. (cli.help holds the first screens of --help to 40 lines.)
# Usage: words.sh SOURCE_DIR
cd "$1" || exit 2
# shellcheck disable=SC2046 # names without spaces
LC_ALL=C awk -v most_words=45000 -v most_bytes=25000 -v most_lines=90 '
    FNR == 1 { pages++ }
    { bytes[FILENAME] += length + 1; if (FILENAME == "README.md") lines++ }
    { for (i = 1; i <= NF; i++) words += $i ~ /[A-Za-z0-9]/ }
    END {
        for (page in bytes) {
            if (bytes[page] > largest) { largest = bytes[page]; name = page }
            if (bytes[page] > most_bytes) { print page ": " bytes[page] " bytes, more than " most_bytes; bad = 1 }
        }
        if (lines > most_lines) { print "README.md: " lines " lines, more than " most_lines; bad = 1 }
        if (words > most_words) { print "the manual: " words " words, more than " most_words; bad = 1 }
        print pages " pages, " words " words; the largest page, " name ", has " largest " bytes; README.md " lines " lines"
        exit bad || pages < 10
    }' README.md $(find docs -path docs/results -prune -o -name '*.md' -print | sort)
