/* Tests of shell scripts, [ ... ] and [[ ... ]]: strings, whole numbers, and, or, not. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "study/frameworks/shell.h"

/* The text without its gaps: what is not set is empty. False: one is the output of a command. */
static bool fill_gaps(struct shell *s, const char *text, char **out)
{
    char *to = arena_text(&s->keys->memory, text);
    *out = to;
    for (const char *from = text; to && *from; from++)
        if (*from != KEYS_GAP)
            *to++ = *from;
        else if (from[1] == '(' || !strchr(from, KEYS_GAP_END))
            return false;
        else
            from = strchr(from, KEYS_GAP_END);
    if (to)
        *to = '\0';
    return to != NULL;
}

/* Of what is known. */
static enum shell_truth truth(bool value)
{
    return value ? SHELL_TRUE : SHELL_FALSE;
}

/* One side a number, as -gt and its like want it; false: it is none. */
static bool shell_test_number(const char *text, long long *out)
{
    char *end;
    *out = strtoll(text, &end, 10);
    return end > text && !*end;
}

/* == takes a pattern on its right, as in [[ ]]; in [ ] it rarely has letters of one. */
static enum shell_truth shell_test_compare(const char *left, const char *sign, const char *right)
{
    static const char *const signs[] = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
    long long a, b;
    if (!strcmp(sign, "==") || !strcmp(sign, "="))
        return truth(fnmatch(right, left, 0) == 0);
    if (!strcmp(sign, "!="))
        return truth(fnmatch(right, left, 0) != 0);
    if (!shell_test_number(left, &a) || !shell_test_number(right, &b))
        return SHELL_UNKNOWN;
    const bool holds[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (!strcmp(sign, signs[i]))
            return truth(holds[i]);
    return SHELL_UNKNOWN;
}

/* One comparison that begins at word[i]; *used: its words. Files are taken not to be there. */
static enum shell_truth primary(char *const *word, const bool *known, size_t n, size_t *used)
{
    bool binary = n >= 3 && strcmp(word[1], "&&") != 0 && strcmp(word[1], "||") != 0;
    bool unary = n >= 2 && word[0][0] == '-' && strlen(word[0]) == 2;
    bool filled = unary && strchr("nz", word[0][1]);
    if (unary && (!binary || (filled && word[2][0] == '-' && n > 3))) { /* -n A -a ... */
        *used = 2;
        return filled && known[1] ? truth((*word[1] != '\0') == (word[0][1] == 'n'))
                                  : SHELL_UNKNOWN;
    }
    if (binary) {
        *used = 3;
        return known[0] && known[2] ? shell_test_compare(word[0], word[1], word[2]) : SHELL_UNKNOWN;
    }
    *used = 1;
    return known[0] ? truth(*word[0] != '\0') : SHELL_UNKNOWN;
}

/* Left to right; unknown stands unless the other side decides. */
enum status shell_test(struct shell *s, const struct shell_raw *raw, size_t n,
                       enum shell_truth *out)
{
    enum status st = STATUS_OK;
    char **word = NULL;
    bool *known = NULL, not = false;
    char sign = '\0';
    enum shell_truth result = SHELL_TRUE;
    const char *text;
    TRY(ARRAY_NEW(word, n));
    TRY(ARRAY_NEW(known, n));
    for (size_t i = 0; i < n; i++) {
        TRY(shell_join(s, raw[i].text, raw[i].length, &text));
        TRY(keys_charge(s->keys, strlen(text)));
        known[i] = fill_gaps(s, text, &word[i]);
        if (!word[i])
            FAIL(STATUS_NOMEM, "out of memory");
    }
    for (size_t i = 0, used = 1; i < n; i += used) {
        used = 1;
        if (!strcmp(word[i], "!")) {
            not = !not ;
            continue;
        }
        if (!strcmp(word[i], "&&") || !strcmp(word[i], "-a") || !strcmp(word[i], "||") ||
            !strcmp(word[i], "-o")) {
            sign = strpbrk(word[i], "|o") ? '|' : '&';
            continue;
        }
        enum shell_truth t = primary(word + i, known + i, n - i, &used);
        result = shell_with(result, sign, not ? SHELL_TRUE - t : t);
        not = false;
    }
    *out = n > 0 ? result : SHELL_FALSE;
out:
    free(known);
    free(word);
    return st;
}
