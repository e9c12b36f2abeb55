/* agreement.h - what every rank of a run must have been told alike: a table of named settings.
 *
 * A worker sends the table as text when it joins (struct frame_hello), the launcher writes its own
 * from the same rows and compares. A setting more is a row more in agreement.c. Values say what
 * counts, not how it was spelled: numbers in their shortest form, texts and plans by SHA-256 of
 * their bytes, defaults filled in, folders without symbolic links. */
#ifndef EXEC_AGREEMENT_H
#define EXEC_AGREEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/model.h"
#include "core/data/program.h"

struct corpus;

enum { AGREEMENT = 4096 }; /* bytes of the text with its NUL */

struct agreement {
    const struct program *program;
    const struct model *model;
    const char *program_path, *model_path; /* the files of both */
    const struct corpus *text;             /* NULL: the one shipped with foreline */
    const char *device, *transport;        /* names */
    const char *collective, *policy;       /* NULL: the defaults */
    double learning_rate;
    bool paced, graphs, cudnn;
    uint64_t steps, warmup; /* steps: measured ones */
    const char *checkpoint; /* folder; NULL: none */
    uint64_t checkpoint_every;
    const char *resume; /* folder of a step; NULL: none */
};

/* Lines "name<TAB>value", NUL-terminated; the rest of text[] is zeros. STATUS_IO, STATUS_PARSE of
 * the files and of `resume`; STATUS_INVALID of a policy or a value that is too long;
 * STATUS_NOMEM. */
enum status agreement_write(const struct agreement *a, char text[AGREEMENT]) MUST_CHECK;

/* A row more: why the rank has failed before it could join; after the others, or alone in a
 * text. */
void agreement_add_failure(const char *message, char text[AGREEMENT]);

/* Compare what `name` says (any bytes, as they came) with what `other` says (by agreement_write()).
 * STATUS_INVALID: "NAME has --steps 5, OTHER has 4", of the first row that
 * differs; else "NAME: MESSAGE" of a failure. O(rows^2). */
enum status agreement_check(const char *name, const char said[AGREEMENT], const char *other,
                            const char expected[AGREEMENT]) MUST_CHECK;

#endif
