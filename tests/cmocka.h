/* cmocka.h - cmocka's header, behind those that it needs and does not include; how much to test; and
 * what a message must say, however it is worded. */
#ifndef TESTS_CMOCKA_H
#define TESTS_CMOCKA_H

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Is there time for everything? `./check --all` sets FORELINE_EVERYTHING; without it a test that
 * takes long leaves out what others of its cases come close to. */
static inline bool test_everything(void)
{
    return getenv("FORELINE_EVERYTHING") != NULL;
}

/* Is at[0..n) a word by itself: no part of a longer word or number in text? */
static inline bool message_word(const char *text, const char *at, size_t n)
{
    const char *end = at + n;
    bool number = isdigit((unsigned char)*at);
    if (*at == '.' && at > text && isdigit((unsigned char)at[-1]))
        return false;
    if (isalnum((unsigned char)*at) && at > text) {
        bool sign = at[-1] == '-' && (at == text + 1 || !isalnum((unsigned char)at[-2]));
        bool fraction = at[-1] == '.' && at > text + 1 && isdigit((unsigned char)at[-2]);
        if (isalnum((unsigned char)at[-1]) || (number && (sign || fraction)))
            return false;
    }
    return !isalnum((unsigned char)end[-1]) ||
           (!isalnum((unsigned char)*end) && !(*end == '.' && isdigit((unsigned char)end[1])));
}

/* Does text have all words (separated by blanks) in this order, whatever is between them? Tests name
 * with it what a message is about (place, option, values), so that its wording is free. */
static inline bool message_says(const char *text, const char *words)
{
    const char *from = text;
    for (words += strspn(words, " "); *words; words += strspn(words, " ")) {
        size_t n = strcspn(words, " ");
        const char *at = from;
        while (*at && (strncmp(at, words, n) != 0 || !message_word(text, at, n)))
            at++;
        if (!*at)
            return false;
        from = at + n;
        words += n;
    }
    return true;
}

#define assert_message(text, words) check_message(text, words, __FILE__, __LINE__)

static inline void check_message(const char *text, const char *words, const char *file, int line)
{
    if (message_says(text, words))
        return;
    print_error("'%s' does not say '%s'\n", text, words);
    _fail(file, line);
}

#endif
