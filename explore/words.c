/* Command lines that may be run: rows of allowed.def, options of the table of settings. */
#include "explore/words.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "study/settings.h"

static const struct {
    const char *command, *word;
    taker_set ways;
} allowed[] = {
#define ALLOWED(command, word, ways) {command, word, ways},
#include "explore/allowed.def"
#undef ALLOWED
};

/* They lift limits of time and memory, start as many processes as they say, or need a '/'. */
static const char *const denied[] = {"limit", "workers", "shard"};

enum status words_check_one(const char *word)
{
    bool begins = true;
    if (strlen(word) > WORDS_LONGEST)
        return error_set(STATUS_USAGE, "a word has more than %d bytes", WORDS_LONGEST);
    for (const unsigned char *c = (const unsigned char *)word; *c; c++) {
        if (*c == '/' || *c < 0x20 || *c == 0x7f || (c[0] == '.' && c[1] == '.') ||
            (begins && strchr(".~-", *c)))
            return error_set(STATUS_USAGE,
                             "'%.60s': the page refuses values that may name files ('/', '..', or "
                             "'.', '~' or '-' at the beginning); write rates as 400Gbps",
                             word);
        begins = strchr("=,:@", *c) != NULL;
    }
    return STATUS_OK;
}

/* "--name", "--no-name", "--name=value" or "-o". */
static enum status words_check_option(const char *word, const char *command, taker_set ways)
{
    char name[64];
    size_t length = strcspn(word, "=");
    const char *value = word[length] ? word + length + 1 : "";
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    if (!strcmp(name, "-o"))
        strcpy(name, "--output");
    const struct setting *s = text_begins(name, "--") ? setting_find(name + 2, ways) : NULL;
    if (!s && text_begins(name, "--no-"))
        s = setting_find(name + strlen("--no-"), ways);
    bool takes = s != NULL;
    for (size_t i = 0; s && i < sizeof denied / sizeof *denied; i++)
        takes = takes && strcmp(s->name, denied[i]) != 0;
    return takes ? words_check_one(value)
                 : error_set(STATUS_USAGE, "the page may not run %.20s with %.60s", command, name);
}

/* Operands are found as the command itself finds them. */
static enum status words_check_way(const char *const *word, size_t n, taker_set *ways)
{
    char *rest[WORDS_MOST];
    int operands = (int)n - 1;
    taker_set takers = settings_takers(word[0]);
    struct arguments a = arguments_defaults(takers);
    for (size_t i = 1; i < n; i++)
        rest[i - 1] = (char *)(uintptr_t)word[i]; /* only moved */
    PASS(arguments_parse(&a, takers, &operands, rest));
    const char *first = operands > 0 ? rest[0] : "";
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (!strcmp(word[0], allowed[i].command) &&
            (!strcmp(allowed[i].word, first) || !strcmp(allowed[i].word, "FILE"))) {
            *ways = allowed[i].ways;
            return STATUS_OK;
        }
    return error_set(STATUS_USAGE, "the page may not run foreline %.40s %.40s", word[0], first);
}

enum status words_check(const char *const *word, size_t n)
{
    taker_set ways;
    if (n == 0 || n > WORDS_MOST)
        return error_set(STATUS_USAGE, "expected 1 to %d words, got %zu", WORDS_MOST, n);
    PASS(words_check_way(word, n, &ways));
    for (size_t i = 1; i < n; i++)
        PASS(*word[i] == '-' ? words_check_option(word[i], word[0], ways)
                             : words_check_one(word[i]));
    return STATUS_OK;
}
