/* Copies of strings, and names of tables. */
#include "core/text.h"

#include <stdio.h>
#include <string.h>

#include "core/array.h"

enum status text_copy(const char *text, char **out)
{
    char *copy;
    enum status st = ARRAY_COPY(copy, text, strlen(text) + 1);
    if (st == STATUS_OK)
        *out = copy;
    return st;
}

const char *text_list(const char *(*name_of)(size_t i), size_t n, char text[TEXT_LIST])
{
    text[0] = '\0';
    for (size_t i = 0, used = 0; i < n && used < TEXT_LIST; i++)
        used += (size_t)snprintf(text + used, TEXT_LIST - used, "%s%s", i ? ", " : "", name_of(i));
    return text;
}

enum status text_find(const char *what, const char *name, const char *(*name_of)(size_t i),
                      size_t n, size_t *index)
{
    char known[TEXT_LIST];
    for (size_t i = 0; i < n; i++)
        if (!strcmp(name_of(i), name)) {
            *index = i;
            return STATUS_OK;
        }
    return error_set(STATUS_INVALID, "no %s is called '%.60s'; there are %s", what, name,
                     text_list(name_of, n, known));
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
