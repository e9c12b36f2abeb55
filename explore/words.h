/* words.h - which command lines the page may run. */
#ifndef EXPLORE_WORDS_H
#define EXPLORE_WORDS_H

#include <stddef.h>

#include "core/base/error.h"

enum { WORDS_MOST = 256, WORDS_LONGEST = 4096 };

/* May foreline be called with these n words? The command must be a row of explore/allowed.def,
 * each option one that this way of calling it takes (study/settings_table.c), but those that lift
 * limits or start processes. No word and no value names a file outside the current folder, or a
 * hidden one: without '/', control characters and "..", and beginning with neither '.', '~' nor
 * '-', also behind each of "=,:@". STATUS_USAGE with one sentence. */
enum status words_check(const char *const *word, size_t n) MUST_CHECK;

/* The same of one word, such as the name of a file. */
enum status words_check_one(const char *word) MUST_CHECK;

#endif
