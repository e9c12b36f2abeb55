#define _XOPEN_SOURCE 700 /* realpath */
/* Writes settings as options of a command line that means the same from any folder. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/path.h"
#include "core/base/text.h"
#include "core/data/plan.h"
#include "study/settings.h"

/* Quoted for a shell; a file or folder that is there by its absolute path. */
static enum status settings_put_quoted(const char *key, const char *text, FILE *out)
{
    char folder[PATH_MAX], *path = NULL;
    if (!strcmp(key, "resume") && realpath(text, folder))
        text = folder;
    else if (setting_names_file(key)) {
        PASS(path_absolute(text, &path));
        text = path;
    }
    text_put_word(text, out);
    free(path);
    return STATUS_OK;
}

static enum status settings_put_value(const struct setting *s, const void *field, FILE *out)
{
    struct json_writer number = {.stream = out};
    fprintf(out, " --%s=", s->name);
    switch (s->type) {
    case SETTING_COUNT:
    case SETTING_NUMBER:
        fprintf(out, "%zu", *(const size_t *)field);
        break;
    case SETTING_REAL:
    case SETTING_SHARE:
    case SETTING_BYTES:
    case SETTING_SECONDS:
        json_put_real(&number, NULL, *(const double *)field);
        fputs(s->type == SETTING_SECONDS ? "s" : "", out);
        break;
    case SETTING_TEXT:
    case SETTING_WORD:
        return settings_put_quoted(s->name, *(const char *const *)field, out);
    case SETTING_FLAG:
    case SETTING_LIST:
        break; /* neither has one value */
    }
    return STATUS_OK;
}

/* As setting_set() reads it. */
static void put_knob(const struct strategy_knob *k, const void *member, FILE *out)
{
    struct json_writer number = {.stream = out};
    char text[PLAN_MODULES_TEXT];
    double value = strategy_get(k, (const char *)member - k->offset);
    if (k->kind == FIELD_BOOL) {
        fprintf(out, " --%s%s", value != 0 ? "" : "no-", k->option);
        return;
    }
    fprintf(out, " --%s=", k->option);
    if (k->special == STRATEGY_MODULES)
        fputs(plan_print_modules((uint32_t)value, text), out);
    else if (k->word)
        fputs(k->word[(size_t)value], out);
    else
        json_put_real(&number, NULL, value);
}

static bool setting_is_empty(const struct setting *s, const void *field)
{
    return (s->type == SETTING_TEXT || s->type == SETTING_WORD) && !*(const char *const *)field;
}

static enum status put_setting(const struct setting *s, const struct arguments *a, FILE *out)
{
    const void *field = (const char *)a + s->offset;
    const struct text_list *list = field;
    if (s->knob)
        put_knob(s->knob, field, out);
    else if (s->type == SETTING_FLAG && *(const bool *)field)
        fprintf(out, " --%s", s->name);
    else if (s->type != SETTING_FLAG && s->type != SETTING_LIST && !setting_is_empty(s, field))
        return settings_put_value(s, field, out);
    for (size_t k = 0; s->type == SETTING_LIST && k < list->n; k++) {
        fprintf(out, " --%s=", s->name);
        PASS(settings_put_quoted(s->name, list->item[k], out));
    }
    return STATUS_OK;
}

enum status arguments_put(const struct arguments *a, taker_set takers, FILE *out)
{
    for (size_t i = 0; i < settings_table_n; i++)
        if ((settings_table[i].takers & takers) && (a->given[i / 64] >> i % 64 & 1))
            PASS(put_setting(&settings_table[i], a, out));
    return STATUS_OK;
}
