# message.sh - read by tests that look for messages: `pattern "WORDS"` prints the pattern of grep for a
# line that has these words in this order, whatever is between them.
# shellcheck shell=sh
pattern() {
    printf '%s' "$1" | sed -e 's/[].*^$\\[]/\\&/g' -e 's/[^ ]*[0-9][^ ]*/\\(^\\|[^0-9]\\)&\\([^0-9]\\|$\\)/g' -e 's/ /.*/g'
}
