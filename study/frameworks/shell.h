/* shell.h - the part of a shell that launch scripts need, inside the reader of scripts: variables,
 * arrays, quotes, ${NAME:-default}, $((A * B)), tests. No command is run and no file is read:
 * output of commands, and variables that a script does not set, are gaps (keys.h).
 *
 *     shell_words.c    words: where they end, and what they expand to
 *     shell_test.c     [ ... ] and [[ ... ]]
 *     shell_read.c     words, arrays, redirections and comments of a statement
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
    size_t line;              /* of the last assignment */
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

/* The end of the raw word at `text`: an unquoted blank or one of ;&|()<>, or the end. STATUS_PARSE:
 * a quote or a brace is not closed. */
enum status shell_word_end(const struct shell *s, const char *text, const char **end) MUST_CHECK;
/* Append what a raw word of `length` characters expands to: several words when something unquoted
 * has blanks in it, none when it is empty and unquoted. */
enum status shell_expand(struct shell *s, const char *raw, size_t length,
                         struct shell_words *out) MUST_CHECK;
/* The same as one word. */
enum status shell_join(struct shell *s, const char *raw, size_t length,
                       const char **out) MUST_CHECK;
enum status shell_append(struct shell *s, struct shell_words *words, const char *text,
                         size_t length) MUST_CHECK;

/* What a test says. Variables that are not set are empty; where the output of a command counts the
 * answer is unknown. */
enum shell_truth { SHELL_FALSE, SHELL_UNKNOWN, SHELL_TRUE };

/* Kleene's logic: && (sign '&') is the smaller one, || the larger one; other signs forget
 * `before`. */
static inline enum shell_truth shell_with(enum shell_truth before, char sign, enum shell_truth t)
{
    return (sign == '&' && before < t) || (sign == '|' && before > t) ? before : t;
}

/* Of the n raw words between [ and ], or [[ and ]]. */
struct shell_raw {
    const char *text;
    size_t length;
};
enum status shell_test(struct shell *s, const struct shell_raw *word, size_t n,
                       enum shell_truth *out) MUST_CHECK;

/* ---- a script that is followed */

enum { SHELL_FRAMES = 64 };

/* if, for, case: which branch is followed. */
struct shell_frame {
    enum { FRAME_IF, FRAME_LOOP, FRAME_CASE } kind;
    bool outer; /* what is around is followed */
    bool live;  /* this branch is */
    bool taken; /* one was, or is */
    bool pattern;
    const char *value; /* case: what patterns are compared with */
};

struct shell_script {
    struct shell shell;
    const char *at;
    int frames;
    struct shell_frame frame[SHELL_FRAMES];
    bool condition;             /* between if and then */
    enum shell_truth decided;   /* by it so far; outside: by the command before && or || */
    char joined;                /* what stood before this command: & (&&), | (||) or nothing */
    struct shell_words command; /* the last one that trains */
    size_t command_line;
};

/* Is what stands here followed? */
bool shell_live(const struct shell_script *x);
enum status shell_wrong(const struct shell_script *x, const char *what) MUST_CHECK;

/* Reading, in shell_read.c: each moves x->at. Blanks, continued lines and comments; not the end of
 * a line. */
enum status shell_skip_blanks(struct shell_script *x) MUST_CHECK;
enum status shell_read_word(struct shell_script *x, struct shell_raw *out) MUST_CHECK;
/* < > >> 2>&1 &> << with what follows; of << the word that ends it. */
enum status shell_skip_redirection(struct shell_script *x, struct shell_raw *heredoc) MUST_CHECK;
/* Lines up to one that is the word alone. */
void shell_skip_heredoc(struct shell_script *x, const struct shell_raw *word);
/* The items of NAME=( ... ) or NAME+=( ... ), whose "NAME=" is `raw`. */
enum status shell_read_array(struct shell_script *x, const struct shell_raw *raw) MUST_CHECK;

#endif
