/* Counts why plans are refused. */
#include "study/refusals.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Behind a number or a quoted name that begins here. */
static const char *refusal_skip(const char *text)
{
    const char *end = *text == '\'' ? strchr(text + 1, '\'') : NULL;
    if (end)
        return end + 1;
    while (isdigit((unsigned char)*text))
        text++;
    return text;
}

static bool refusal_is(const char *a, const char *b)
{
    a = refusal_skip(a);
    b = refusal_skip(b);
    while (*a && *a == *b) {
        a = refusal_skip(a + 1);
        b = refusal_skip(b + 1);
    }
    return *a == *b;
}

void refusals_add(struct refusals *r, const char *text)
{
    char cut[REFUSAL_TEXT];
    size_t k = 0;
    snprintf(cut, sizeof cut, "%s", text);
    while (k < r->reasons && !refusal_is(r->reason[k].text, cut))
        k++;
    r->n++;
    if (k == REFUSAL_REASONS)
        return;
    if (k == r->reasons)
        memcpy(r->reason[r->reasons++].text, cut, sizeof cut);
    r->reason[k].n++;
}

const char *refusals_most(const struct refusals *r, char text[REFUSALS_WORDS])
{
    const struct refusal *most = &r->reason[0];
    for (size_t k = 1; k < r->reasons; k++)
        most = r->reason[k].n > most->n ? &r->reason[k] : most;
    text[0] = '\0';
    if (r->n > 0)
        snprintf(text, REFUSALS_WORDS, "%s (%zu of %zu refused plans)", most->text, most->n, r->n);
    return text;
}
