#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status text_copy(const char *text, char **out)
{
    size_t length = strlen(text) + 1;
    char *copy = malloc(length);
    if (!copy)
        return error_set(STATUS_NOMEM, "out of memory");
    memcpy(copy, text, length);
    *out = copy;
    return STATUS_OK;
}

enum status text_find(const char *what, const char *name, const char *(*name_of)(size_t i),
                      size_t n, size_t *index)
{
    char known[512] = "";
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(name_of(i), name)) {
            *index = i;
            return STATUS_OK;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", name_of(i));
    }
    return error_set(STATUS_INVALID, "no %s is called '%.60s'; there are %s", what, name, known);
}

void text_put_xml(FILE *to, const char *text, size_t n)
{
    for (; n > 0 && *text; text++, n--) {
        if (*text == '&')
            fputs("&amp;", to);
        else if (*text == '<')
            fputs("&lt;", to);
        else if (*text == '>')
            fputs("&gt;", to);
        else if (*text == '"')
            fputs("&quot;", to);
        else
            putc((unsigned char)*text < ' ' ? ' ' : *text, to);
    }
}
