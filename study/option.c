#include "study/option.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/units.h"

static enum status set_quantity(const struct option_spec *o, enum unit unit, const char *text)
{
    if (units_parse(unit, text, o->value) == STATUS_OK)
        return STATUS_OK;
    return error_context(STATUS_USAGE, "--%s", o->name);
}

enum status option_set(const struct option_spec *o, const char *text)
{
    char *end = NULL;
    errno = 0;
    switch (o->type) {
    case OPTION_FLAG:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return error_set(STATUS_USAGE, "--%s: '%s' is neither true nor false", o->name, text);
        *(bool *)o->value = !strcmp(text, "true");
        return STATUS_OK;
    case OPTION_STRING:
        *(const char **)o->value = text;
        return STATUS_OK;
    case OPTION_SECONDS:
        return set_quantity(o, UNIT_SECONDS, text);
    case OPTION_BYTES:
        return set_quantity(o, UNIT_BYTES, text);
    case OPTION_SIZE: {
        unsigned long long value = strtoull(text, &end, 10);
        if (errno || end == text || *end || *text == '-')
            return error_set(STATUS_USAGE, "--%s: '%s' is not a number", o->name, text);
        *(size_t *)o->value = value;
        return STATUS_OK;
    }
    case OPTION_REAL: {
        double value = strtod(text, &end);
        if (errno || end == text || *end || !isfinite(value))
            return error_set(STATUS_USAGE, "--%s: '%s' is not a number", o->name, text);
        *(double *)o->value = value;
        return STATUS_OK;
    }
    case OPTION_LIST: {
        struct option_list *list = o->value;
        if (list->n == OPTION_LIST_MOST)
            return error_set(STATUS_USAGE, "--%s: at most %d times", o->name, OPTION_LIST_MOST);
        list->item[list->n++] = text;
        return STATUS_OK;
    }
    case OPTION_END:
        break;
    }
    return error_set(STATUS_USAGE, "--%s", o->name);
}

/* The row that `argument` ("--name", "--name=value" or "-o") names; *value points behind "=". */
static const struct option_spec *find(const struct option_spec *spec, const char *argument,
                                      const char **value)
{
    const char *name = !strcmp(argument, "-o") ? "output" : argument + 2;
    size_t length = strcspn(name, "=");
    *value = name[length] ? name + length + 1 : NULL;
    for (; spec->type != OPTION_END; spec++)
        if (!strncmp(spec->name, name, length) && !spec->name[length])
            return spec;
    return NULL;
}

enum status option_parse(const struct option_spec *spec, int *argc, char **argv)
{
    enum status st = STATUS_OK;
    int operands = 0, i = 0;
    for (; i < *argc; i++) {
        if (!strcmp(argv[i], "--")) {
            i++;
            break;
        }
        if (argv[i][0] != '-' || !argv[i][1]) { /* "-" is standard input */
            argv[operands++] = argv[i];
            continue;
        }
        const char *value, *name = argv[i];
        const struct option_spec *o =
            !strncmp(name, "--", 2) || !strcmp(name, "-o") ? find(spec, name, &value) : NULL;
        if (!o)
            return error_set(STATUS_USAGE, "unknown option %s; --help lists them", name);
        if (o->type == OPTION_FLAG && value)
            return error_set(STATUS_USAGE, "--%s takes no value", o->name);
        if (o->type != OPTION_FLAG && !value && ++i == *argc)
            return error_set(STATUS_USAGE, "%s needs a value (%s)", name, o->argument);
        TRY(option_set(o, o->type == OPTION_FLAG ? "true" : value ? value : argv[i]));
    }
    for (; i < *argc; i++)
        argv[operands++] = argv[i];
    *argc = operands;
out:
    return st;
}

/* The help and the default as the user would type it. */
static void describe(const struct option_spec *o, char *text, size_t size)
{
    char quantity[UNITS_TEXT];
    size_t n = (size_t)snprintf(text, size, "%s", o->help);
    if (n >= size)
        return;
    if (o->type == OPTION_SIZE)
        snprintf(text + n, size - n, " [%zu]", *(const size_t *)o->value);
    else if (o->type == OPTION_REAL)
        snprintf(text + n, size - n, " [%g]", *(const double *)o->value);
    else if (o->type == OPTION_STRING && *(const char *const *)o->value)
        snprintf(text + n, size - n, " [%s]", *(const char *const *)o->value);
    else if (o->type == OPTION_SECONDS)
        snprintf(text + n, size - n, " [%s]",
                 units_print(UNIT_SECONDS, *(const double *)o->value, quantity));
    else if (o->type == OPTION_BYTES)
        snprintf(text + n, size - n, " [%s]",
                 units_print(UNIT_BYTES, *(const double *)o->value, quantity));
}

/* Words of `text` in lines that end before `limit`; later lines begin at `indent`. */
static void print_wrapped(const char *text, int indent, int limit, FILE *out)
{
    int column = indent;
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (column > indent && column + word >= limit) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        }
        column += fprintf(out, "%s%.*s", column > indent ? " " : "", word, text);
        text += word + (text[word] == ' ');
    }
    fputc('\n', out);
}

void option_print(const struct option_spec *spec, FILE *out)
{
    enum { INDENT = 33, LIMIT = 96 };
    for (; spec->type != OPTION_END; spec++) {
        char name[64], text[512];
        snprintf(name, sizeof name, "--%s%s%s", spec->name, spec->argument ? " " : "",
                 spec->argument ? spec->argument : "");
        describe(spec, text, sizeof text);
        fprintf(out, "  %-30s ", name);
        print_wrapped(text, INDENT, LIMIT, out);
    }
}
