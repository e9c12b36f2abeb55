/* script.h - calls of python/capture*.py about a training script, whose words stand behind "--". */
#ifndef STUDY_SCRIPT_H
#define STUDY_SCRIPT_H

#include "core/base/executable.h"
#include "study/settings.h"

enum { SCRIPT_NUMBER = 32, SCRIPT_OPTIONS = 32, SCRIPT_NUMBERS = 8, SCRIPT_WORDS = 4096 };

/* Words of a call, which borrow what they are given; ended by NULL once script_end() has put those
 * of the script. Stays where it is. */
struct script_call {
    const char *word[SCRIPT_OPTIONS + SCRIPT_WORDS + 2];
    size_t n;
    char number[SCRIPT_NUMBERS][SCRIPT_NUMBER];
    size_t numbers;
    char folder[EXECUTABLE_FOLDER], program[EXECUTABLE_FOLDER + 128];
};

/* Begin a call of that file of ours; *out is {0}. STATUS_UNSUPPORTED: the file is missing. */
enum status script_begin(const char *file, struct script_call *out) MUST_CHECK;
/* Add an option; `value` NULL: a flag. */
void script_put(struct script_call *c, const char *option, const char *value);
void script_put_number(struct script_call *c, const char *option, double value);
/* Options of capture.py, which is to write to `output`. */
void script_put_capture(struct script_call *c, const struct capture_arguments *a,
                        const char *output);
/* Add "--" and the script's n words. STATUS_USAGE: more than SCRIPT_WORDS. */
enum status script_end(struct script_call *c, char *const *word, size_t n) MUST_CHECK;
/* This process becomes the call. Returns only with an error, STATUS_UNSUPPORTED. */
enum status script_become(const struct script_call *c) MUST_CHECK;

#endif
