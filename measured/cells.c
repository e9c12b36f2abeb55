/* Lines of tables. */
#include "measured/cells.h"

#include <string.h>

size_t cells_split(char *line, char separator, char **cell, size_t most)
{
    size_t n = 0;
    for (char *at = line; at && n < most;) {
        at += strspn(at, separator == '\t' ? " " : " \t");
        char *to = at, *begin = at;
        if (*at == '"') {
            for (at++; *at && !(*at == '"' && at[1] != '"'); at++) {
                at += *at == '"';
                *to++ = *at;
            }
            at += *at == '"';
            at += strcspn(at, (const char[]){separator, '\0'});
        } else {
            at += strcspn(at, (const char[]){separator, '\0'});
            to = at;
        }
        char *next = *at ? at + 1 : NULL;
        while (to > begin && (to[-1] == ' ' || to[-1] == '\t'))
            to--;
        *to = '\0';
        cell[n++] = begin;
        at = next;
    }
    return n;
}

char cells_separator(const char *header)
{
    return strchr(header, '\t') ? '\t' : strchr(header, ';') ? ';' : ',';
}

double cells_unit(const char *name, size_t length)
{
    static const struct {
        const char *name;
        double seconds;
    } unit[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"sec", 1}, {"seconds", 1}};
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
        if (strlen(unit[i].name) == length && strncmp(unit[i].name, name, length) == 0)
            return unit[i].seconds;
    return 0;
}
