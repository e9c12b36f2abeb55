/* captured.h - captured scripts as inputs: one on a platform as a program; and those that an
 * experiment asks for, made once and kept. */
#ifndef STUDY_CAPTURED_H
#define STUDY_CAPTURED_H

#include <stdio.h>

#include "core/data/model.h"
#include "core/lower/captured.h"
#include "study/settings.h"

struct captured {
    struct capture capture;
    struct operator_times times;
    struct captured_tally tally;
    struct captured_map map;
    struct model model; /* of no ops: the type of the script's numbers */
};

/* Read a folder, and make its program on a topology as --operators and --serial say. *out and
 * *program must be {0}. As capture_read(), capture_lower(), operator_times_read(). */
enum status captured_load(const char *folder, const struct arguments *a, const struct topology *t,
                          struct captured *out, struct program *program) MUST_CHECK;
void captured_free(struct captured *c); /* accepts {0}; leaves {0} */

/* Is a point of an experiment about a captured script? */
bool captured_asked(const struct arguments *a);
/* What its result depends on: the command, and the contents of files that it names; or the files of
 * capture.folder. */
enum status captured_put_identity(const struct arguments *a, FILE *to) MUST_CHECK;
enum { CAPTURED_FOLDER = 4096 };
/* The folder of the point's capture, captures/HASH for a script, which is run unless that is there.
 * STATUS_EXTERNAL: it cannot be captured; STATUS_IO. */
enum status captured_find(const struct arguments *a, char folder[CAPTURED_FOLDER]) MUST_CHECK;

/* STATUS_INVALID where a plan is expected and `path` is a capture: what to do instead. */
enum status captured_is_no_plan(const char *path) MUST_CHECK;

#endif
