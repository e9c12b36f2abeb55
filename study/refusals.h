/* refusals.h - why a search's plans were refused, and how often. */
#ifndef STUDY_REFUSALS_H
#define STUDY_REFUSALS_H

#include <stddef.h>

enum { REFUSAL_TEXT = 200, REFUSAL_REASONS = 32 };

/* Reasons that differ only in numbers, or in names between quotes, are one: its first words stay.
 * Beyond REFUSAL_REASONS different ones, new reasons are counted in n alone. {0} is empty. */
struct refusals {
    size_t n, reasons;
    struct refusal {
        size_t n;
        char text[REFUSAL_TEXT];
    } reason[REFUSAL_REASONS];
};

/* O(reasons). */
void refusals_add(struct refusals *r, const char *text);
/* "REASON (120 of 130 refused plans)" of the most frequent one, the earliest of equals; empty:
 * none. Returns `text`. */
enum { REFUSALS_WORDS = REFUSAL_TEXT + 64 };
const char *refusals_most(const struct refusals *r, char text[REFUSALS_WORDS]);

#endif
