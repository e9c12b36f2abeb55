/* GPUs of the catalogue by what others call them. */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "topologies/catalogue.h"

enum { WORD = 32 };

/* Behind how many there are: "H200" of "4x8xH200". */
static const char *uncounted(const char *word)
{
    size_t n = 0;
    while (isdigit((unsigned char)word[n]))
        n++;
    bool counts = n > 0 && word[n] == 'x' && isalnum((unsigned char)word[n + 1]);
    return counts ? uncounted(word + n + 1) : word;
}

/* The next word of letters and digits, in capitals; false: there is none. */
static bool next_word(const char **at, char word[WORD])
{
    size_t n = 0;
    while (**at && !isalnum((unsigned char)**at))
        (*at)++;
    *at = uncounted(*at);
    while (isalnum((unsigned char)**at)) {
        if (n < WORD - 1)
            word[n++] = (char)toupper((unsigned char)**at);
        (*at)++;
    }
    word[n] = '\0';
    return n > 0;
}

/* "40" of "A100-40" is in "A100-SXM-40GB". */
static bool has_word(const char *text, const char *word)
{
    char other[WORD];
    size_t n = strlen(word);
    while (next_word(&text, other))
        if (strncmp(word, other, n) == 0 &&
            (!other[n] || (isdigit((unsigned char)word[0]) && strcmp(other + n, "GB") == 0)))
            return true;
    return false;
}

const struct gpu *gpu_named(const char *text)
{
    const struct gpu *found = NULL;
    size_t most = 0;
    for (size_t i = 0; i < gpus_n; i++) {
        const char *at = gpus[i].name;
        char word[WORD];
        size_t words = 0;
        bool all = true;
        for (; all && next_word(&at, word); words++)
            all = has_word(text, word);
        if (all && (words > most ||
                    (words == most && found && strlen(gpus[i].name) > strlen(found->name)))) {
            found = &gpus[i];
            most = words;
        }
    }
    return found;
}
