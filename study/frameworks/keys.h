/* keys.h - what a file of a training framework says, as a flat list of keys and values, whatever
 * its format: arguments in a shell script, YAML, JSON, TOML, keyword arguments of Python.
 *
 *     --num-layers 32                      ->  "num_layers" = "32"
 *     model: {optim: {name: adam}}         ->  "model.optim.name" = "adam"
 *
 * Nothing of a file is executed. What a file does not say itself (variables of the environment,
 * output of commands) stays in a value as a gap, KEYS_GAP NAME KEYS_GAP_END, which is an error only
 * where the value is needed. Values for gaps, and values instead of the file's, come from --set
 * NAME=VALUE. */
#ifndef STUDY_FRAMEWORKS_KEYS_H
#define STUDY_FRAMEWORKS_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/array.h"
#include "core/base/error.h"
#include "core/base/file.h"

enum {
    KEYS_MOST = 20000,        /* keys of a file */
    KEYS_TEXT_MOST = 4 << 20, /* bytes of all values together, variables of scripts included */
    KEYS_GAP = 1,
    KEYS_GAP_END = 2
};

struct framework_key {
    const char *name; /* path of names, joined by dots; without leading "--", "_" for "-" */
    const char *text; /* NULL: a flag without a value */
    size_t line;      /* 0: of --set */
    bool used;        /* something was made of it; others are reported */
};

/* In which language the file was written. */
enum keys_format { KEYS_SHELL, KEYS_TREE, KEYS_TOML, KEYS_PYTHON };

struct keys {
    struct arena memory; /* of everything here */
    const char *path;    /* for messages */
    const char *text;    /* [length] of a tree; in the arena */
    size_t length;
    enum keys_format format;
    const char *program; /* script: the Python program that is started; NULL: not known */
    size_t n;
    struct framework_key *key;
    size_t sets;
    const char *const *set; /* [sets] "NAME=VALUE", borrowed */
    bool *asked;            /* [sets] somebody wanted its value */
    size_t bytes;           /* of values made so far */
};

/* Read files, one after the other as if they were one (a script and what it sources). set [sets]:
 * "NAME=VALUE". Release with keys_free(), also after a failure.
 * STATUS_PARSE "path:line: what", STATUS_UNSUPPORTED, STATUS_IO, STATUS_NOMEM, STATUS_USAGE. */
enum status keys_read(const char *const *path, size_t paths, const char *const *set, size_t sets,
                      struct keys *out) MUST_CHECK;
/* The same for one text in memory. */
enum status keys_parse(const char *path, const char *text, size_t length,
                       struct keys *k) MUST_CHECK;
void keys_free(struct keys *k);

/* Append; `text` may be NULL. For readers of formats. */
enum status keys_add(struct keys *k, const char *name, const char *text, size_t line) MUST_CHECK;
/* The value of --set NAME; NULL: it was not given. */
const char *keys_given(const struct keys *k, const char *name, size_t length);
/* The next --set, from *at on, that nobody wanted: its NAME; NULL: there is no more. */
const char *keys_unused(const struct keys *k, size_t *at);
/* "path:line: NAME is ...", or, of a value by --set, "--set: NAME is ..."; returns `st`. */
enum status keys_wrong(const struct keys *k, const struct framework_key *key, enum status st,
                       const char *fmt, ...) PRINTF_LIKE(4, 5);
/* Close the text and keep it in the arena. */
enum status keys_keep(struct keys *k, struct file_text *text, const char **out) MUST_CHECK;
/* Count so many bytes of values; STATUS_PARSE when they are too many. */
enum status keys_charge(struct keys *k, size_t bytes) MUST_CHECK;

/* The last key whose path ends with `name`; NULL: none, or its value is null. It and all of the
 * same path count as used. */
struct framework_key *keys_find(struct keys *k, const char *name);
/* Its text as it stands in the file; "": none. */
const char *keys_said(struct keys *k, const char *name);
/* Is there such a key? It does not count as used. */
bool keys_has(const struct keys *k, const char *name);
/* Its text with references to other keys ("${.hidden_size}", "${multiply:4, ${a.b}}") replaced.
 * STATUS_INVALID: a gap is left: which name is needed. */
enum status keys_text(struct keys *k, struct framework_key *key, const char **out) MUST_CHECK;
/* A whole number ("2_048", "1e3", "8 * 2048", "true"); STATUS_PARSE else. */
enum status keys_number(struct keys *k, struct framework_key *key, int64_t *out) MUST_CHECK;
/* Is it on? A flag without a value is; texts that say no are "false", "no", "off", "0", "null". */
enum status keys_flag(struct keys *k, struct framework_key *key, bool *out) MUST_CHECK;

/* Readers of the formats: append to k. `text` ends with a NUL. */
enum status keys_read_shell(struct keys *k, const char *text, size_t length) MUST_CHECK;
enum status keys_read_tree(struct keys *k, const char *text, size_t length) MUST_CHECK;
enum status keys_read_toml(struct keys *k, const char *text, size_t length) MUST_CHECK;
enum status keys_read_python(struct keys *k, const char *text, size_t length) MUST_CHECK;

#endif
