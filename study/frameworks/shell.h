/* shell.h - the part of a shell that launch scripts need, inside the reader of scripts: variables,
 * arrays, quotes, ${NAME:-default}, $((A * B)), tests. No command is run and no file is read: output
 * of commands, and variables that a script does not set, are gaps (keys.h).
 *
 *     shell_words.c    words: where they end, and what they expand to
 *     shell_test.c     [ ... ] and [[ ... ]]
 *     keys_shell.c     statements, and which words are a framework's arguments */
#ifndef STUDY_FRAMEWORKS_SHELL_H
#define STUDY_FRAMEWORKS_SHELL_H

#include "study/frameworks/keys.h"

enum { SHELL_DEEP = 24, SHELL_VARIABLES = 4096 };

struct shell_words {
    size_t n;
    char **word; /* [n] in the arena */
};

struct shell_variable {
    const char *name;
    struct shell_words value; /* of an array all items, else one */
    bool fixed;               /* by --set: assignments do not change it */
};

struct shell {
    struct keys *keys;
    size_t line; /* of the statement */
    size_t variables;
    struct shell_variable *variable;
    int depth; /* of expansions inside expansions */
};

/* NULL: it is not set. */
struct shell_variable *shell_find(struct shell *s, const char *name, size_t length);
/* NAME=value, or more items with `append`; of a scalar text is appended. */
enum status shell_assign(struct shell *s, const char *name, size_t length,
                         const struct shell_words *value, bool array, bool append) MUST_CHECK;

/* The end of the raw word at `text`: an unquoted blank or one of ;&|()<>, or the end. STATUS_PARSE: a
 * quote or a brace is not closed. */
enum status shell_word_end(const struct shell *s, const char *text, const char **end) MUST_CHECK;
/* Append what a raw word of `length` characters expands to: several words when something unquoted has
 * blanks in it, none when it is empty and unquoted. */
enum status shell_expand(struct shell *s, const char *raw, size_t length,
                         struct shell_words *out) MUST_CHECK;
/* The same as one word. */
enum status shell_join(struct shell *s, const char *raw, size_t length,
                       const char **out) MUST_CHECK;
enum status shell_append(struct shell *s, struct shell_words *words, const char *text,
                         size_t length) MUST_CHECK;

/* What a test says. Variables that are not set are empty; where the output of a command counts the
 * answer is unknown. */
enum shell_truth { SHELL_FALSE, SHELL_TRUE, SHELL_UNKNOWN };
/* Of the n raw words between [ and ], or [[ and ]]. */
struct shell_raw {
    const char *text;
    size_t length;
};
enum status shell_test(struct shell *s, const struct shell_raw *word, size_t n,
                       enum shell_truth *out) MUST_CHECK;

#endif
