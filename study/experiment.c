#include "study/experiment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/text.h"
#include "study/yaml.h"

enum { KEY = 256 };
static const char cases_key[] = "cases", seed_key[] = "seed", plan_prefix[] = "plan.",
                  best_key[] = "best";

struct reader {
    const struct experiment_check *check;
    struct experiment e;
    size_t repeats, repeats_line;
    const struct yaml_value *best_of;
};

static enum status out_of_memory(void)
{
    return error_set(STATUS_NOMEM, "out of memory");
}

#define FAULT(r, line, ...) fault((r)->e.path, line, __VA_ARGS__)
static enum status fault(const char *path, size_t line, const char *fmt, const char *text)
    __attribute__((format(printf, 3, 0)));
static enum status fault(const char *path, size_t line, const char *fmt, const char *text)
{
    char what[512];
    snprintf(what, sizeof what, fmt, text);
    return error_set(STATUS_PARSE, "%s:%zu: %s", path, line, what);
}

/* ---- settings */

static enum status add_setting(struct reader *r, struct experiment_choice *c, const char *key,
                               const struct yaml_value *v)
{
    enum status st;
    if (!v->text)
        return FAULT(r, v->line, "%s: expected one value", key);
    if (r->check && (st = r->check->setting(r->check->context, key, v->text)) != STATUS_OK)
        return st == STATUS_NOMEM ? st : error_context(STATUS_PARSE, "%s:%zu", r->e.path, v->line);
    struct experiment_setting *larger = realloc(c->setting, (c->n + 1) * sizeof *larger);
    if (!larger)
        return out_of_memory();
    c->setting = larger;
    struct experiment_setting *s = &c->setting[c->n++];
    *s = (struct experiment_setting){.line = v->line};
    TRY(text_copy(key, &s->key));
    TRY(text_copy(v->text, &s->value));
out:
    return st;
}

static enum status new_axis(struct reader *r, const char *name, size_t line, size_t n,
                            struct experiment_axis **out)
{
    struct experiment *e = &r->e;
    if (e->axes == EXPERIMENT_AXES)
        return FAULT(r, line, "%s: too many settings", name);
    if (n == 0)
        return FAULT(r, line, "%s: an empty list", name);
    if (e->points > EXPERIMENT_POINTS / n)
        return FAULT(r, line, "%s: more than a million points", name);
    struct experiment_axis *larger = realloc(e->axis, (e->axes + 1) * sizeof *larger);
    if (!larger)
        return out_of_memory();
    e->axis = larger;
    *out = &e->axis[e->axes];
    **out = (struct experiment_axis){.line = line};
    (*out)->choice = calloc(n, sizeof *(*out)->choice);
    if (!(*out)->choice)
        return out_of_memory();
    (*out)->n = n;
    e->axes++;
    e->points *= n;
    return text_copy(name, &(*out)->name);
}

/* One value, or a list of them. */
static enum status add_axis(struct reader *r, const char *key, const struct yaml_value *v)
{
    enum status st;
    struct experiment_axis *axis;
    bool list = !v->text && !v->is_map;
    TRY(new_axis(r, key, v->line, list ? v->items : 1, &axis));
    for (size_t i = 0; i < axis->n; i++) {
        const struct yaml_value *item = list ? &v->item[i] : v;
        TRY(add_setting(r, &axis->choice[i], key, item));
        for (size_t k = 0; k < i; k++)
            if (!strcmp(axis->choice[k].label, item->text)) {
                st = FAULT(r, item->line, "'%s' a second time in this list", item->text);
                goto out;
            }
        TRY(text_copy(item->text, &axis->choice[i].label));
    }
out:
    return st;
}

/* Call `use` for every text or list below a map, with the keys joined by dots. */
static enum status flatten(struct reader *r, const char *prefix, const struct yaml_value *map,
                           enum status (*use)(struct reader *r, void *to, const char *key,
                                              const struct yaml_value *v),
                           void *to)
{
    enum status st = STATUS_OK;
    for (size_t i = 0; i < map->entries; i++) {
        const struct yaml_entry *entry = &map->entry[i];
        char key[KEY];
        int n = snprintf(key, sizeof key, "%s%s%s", prefix, *prefix ? "." : "", entry->key);
        if (n >= KEY) {
            st = FAULT(r, entry->value.line, "'%.40s...': too long a name", key);
            goto out;
        }
        if (entry->value.is_map)
            TRY(flatten(r, key, &entry->value, use, to));
        else
            TRY(use(r, to, key, &entry->value));
    }
out:
    return st;
}

/* ---- cases */

static enum status add_to_case(struct reader *r, void *to, const char *key,
                               const struct yaml_value *v)
{
    struct experiment_choice *c = to;
    if (!strcmp(key, "name")) {
        if (!v->text)
            return FAULT(r, v->line, "%s: expected one text", key);
        return text_copy(v->text, &c->label);
    }
    return add_setting(r, c, key, v);
}

static enum status add_cases(struct reader *r, const struct yaml_value *v)
{
    enum status st;
    struct experiment_axis *axis;
    if (v->text || v->is_map)
        return FAULT(r, v->line, "%s: expected a list of maps", cases_key);
    TRY(new_axis(r, "case", v->line, v->items, &axis));
    for (size_t i = 0; i < axis->n; i++) {
        struct experiment_choice *c = &axis->choice[i];
        char number[24];
        if (!v->item[i].is_map) {
            st = FAULT(r, v->item[i].line, "%s: expected a map of settings", cases_key);
            goto out;
        }
        TRY(flatten(r, "", &v->item[i], add_to_case, c));
        snprintf(number, sizeof number, "%zu", i + 1);
        if (!c->label)
            TRY(text_copy(number, &c->label));
        for (size_t k = 0; k < i; k++)
            if (!strcmp(axis->choice[k].label, c->label)) {
                st = FAULT(r, v->item[i].line, "a second case is called '%s'", c->label);
                goto out;
            }
    }
out:
    return st;
}

/* ---- the words that are no settings */

static enum status read_count(struct reader *r, const char *key, const struct yaml_value *v,
                              size_t *out)
{
    char *end;
    errno = 0;
    unsigned long n = v->text ? strtoul(v->text, &end, 10) : 0;
    if (!v->text || errno || *end || v->text[0] < '0' || v->text[0] > '9' || n > 10000)
        return FAULT(r, v->line, "%s: expected a number from 0 to 10000", key);
    *out = n;
    return STATUS_OK;
}

static enum status read_best(struct reader *r, const struct yaml_value *v)
{
    if (!v->is_map)
        return FAULT(r, v->line, "%s: expected a map of 'of' and 'by'", best_key);
    for (size_t i = 0; i < v->entries; i++) {
        const struct yaml_entry *entry = &v->entry[i];
        const char *text = entry->value.text;
        if (!strcmp(entry->key, "of") && !entry->value.is_map)
            r->best_of = &entry->value;
        else if (!strcmp(entry->key, "by") && text &&
                 (!strcmp(text, "samples_per_s") || !strcmp(text, "iteration_s")))
            r->e.fewest_seconds = !strcmp(text, "iteration_s");
        else
            return FAULT(r, entry->value.line,
                         "best.%s: expected of: [names of axes], by: samples_per_s or iteration_s",
                         entry->key);
    }
    return STATUS_OK;
}

static enum status read_entry(struct reader *r, const struct yaml_entry *entry)
{
    const struct yaml_value *v = &entry->value;
    if (!strcmp(entry->key, "name")) {
        if (!v->text)
            return FAULT(r, v->line, "%s: expected one text", "name");
        return text_copy(v->text, &r->e.name);
    }
    if (!strcmp(entry->key, cases_key))
        return add_cases(r, v);
    if (!strcmp(entry->key, "finalists"))
        return read_count(r, entry->key, v, &r->e.finalists);
    if (!strcmp(entry->key, "repeats")) {
        r->repeats_line = v->line;
        return read_count(r, entry->key, v, &r->repeats);
    }
    if (!strcmp(entry->key, best_key))
        return read_best(r, v);
    return add_axis(r, entry->key, v);
}

static enum status use_axis(struct reader *r, void *to, const char *key, const struct yaml_value *v)
{
    (void)to;
    return add_axis(r, key, v);
}

/* ---- what follows from it all */

static struct experiment_axis *find_axis(struct experiment *e, const char *name)
{
    for (size_t i = 0; i < e->axes; i++)
        if (!strcmp(e->axis[i].name, name))
            return &e->axis[i];
    return NULL;
}

/* `repeats` is an axis of seeds. */
static enum status add_repeats(struct reader *r)
{
    enum status st;
    struct experiment_axis *seed = find_axis(&r->e, seed_key);
    struct yaml_value list = {.line = r->repeats_line};
    if (r->repeats_line && r->repeats == 0)
        return FAULT(r, r->repeats_line, "%s: expected at least 1", "repeats");
    if (r->repeats && seed)
        return FAULT(r, r->repeats_line, "repeats: seeds are listed under '%s' already", seed_key);
    char(*text)[24] = calloc(r->repeats ? r->repeats : 1, sizeof *text);
    list.item = calloc(r->repeats ? r->repeats : 1, sizeof *list.item);
    if (!text || !list.item) {
        st = out_of_memory();
        goto out;
    }
    list.items = r->repeats;
    for (size_t i = 0; i < r->repeats; i++) {
        snprintf(text[i], sizeof *text, "%zu", i + 1);
        list.item[i] = (struct yaml_value){.line = r->repeats_line, .text = text[i]};
    }
    st = r->repeats ? add_axis(r, seed_key, &list) : STATUS_OK;
    TRY(st);
    seed = find_axis(&r->e, seed_key);
    if (seed)
        seed->seeds = seed->n > 1;
out:
    free(list.item);
    free(text);
    return st;
}

static enum status choose_axis(struct reader *r, const struct yaml_value *v)
{
    struct experiment_axis *axis = v->text ? find_axis(&r->e, v->text) : NULL;
    if (!axis)
        return FAULT(r, v->line, "best.of: '%s' is not a setting of this file",
                     v->text ? v->text : "");
    axis->chosen = true;
    return STATUS_OK;
}

/* Which axes are chosen over: those asked for, else those of the plan. */
static enum status choose_axes(struct reader *r)
{
    enum status st = STATUS_OK;
    if (r->best_of && r->best_of->text)
        return choose_axis(r, r->best_of);
    for (size_t i = 0; r->best_of && i < r->best_of->items; i++)
        TRY(choose_axis(r, &r->best_of->item[i]));
    for (size_t i = 0; !r->best_of && i < r->e.axes; i++)
        r->e.axis[i].chosen =
            r->e.axis[i].n > 1 && !strncmp(r->e.axis[i].name, plan_prefix, strlen(plan_prefix));
out:
    return st;
}

/* "dir/bandwidth.yml" -> "bandwidth" */
static enum status name_it(struct experiment *e)
{
    const char *slash = strrchr(e->path, '/');
    enum status st = text_copy(slash ? slash + 1 : e->path, &e->name);
    char *dot = st == STATUS_OK ? strrchr(e->name, '.') : NULL;
    if (dot && dot > e->name)
        *dot = '\0';
    return st;
}

static enum status read_all(struct reader *r, const struct yaml_value *root)
{
    enum status st = STATUS_OK;
    const struct experiment_setting **settings;
    size_t n;
    for (size_t i = 0; i < root->entries; i++) {
        const struct yaml_entry *entry = &root->entry[i];
        if (entry->value.is_map && strcmp(entry->key, best_key) != 0)
            TRY(flatten(r, entry->key, &entry->value, use_axis, NULL));
        else
            TRY(read_entry(r, entry));
    }
    TRY(add_repeats(r));
    TRY(choose_axes(r));
    if (!r->e.name)
        TRY(name_it(&r->e));
    for (size_t i = 0; i < r->e.axes; i++) /* each case once: is any key set twice? */
        for (size_t k = 0; k < r->e.axis[i].n; k++) {
            TRY(experiment_settings(&r->e, experiment_with(&r->e, 0, i, k), &settings, &n));
            free(settings);
        }
out:
    return st;
}

enum status experiment_parse(const char *path, const char *text, size_t length,
                             const struct experiment_check *check, struct experiment *out)
{
    enum status st;
    struct reader r = {.check = check, .e = {.points = 1}};
    struct yaml_value root = {0};
    if (length > EXPERIMENT_BYTES)
        return error_set(STATUS_PARSE, "%s: %zu bytes, expected at most %d", path, length,
                         EXPERIMENT_BYTES);
    TRY(text_copy(path, &r.e.path));
    TRY(yaml_read(path, text, length, &root));
    TRY(text_copy(text, &r.e.text));
    digest_hex(text, length, r.e.sha256);
    TRY(read_all(&r, &root));
    *out = r.e;
    r.e = (struct experiment){0};
out:
    experiment_free(&r.e);
    yaml_value_free(&root);
    return st;
}

enum status experiment_read(const char *path, const struct experiment_check *check,
                            struct experiment *out)
{
    char *text = NULL;
    size_t length;
    enum status st = file_read(path, &text, &length);
    if (st == STATUS_OK)
        st = experiment_parse(path, text, length, check, out);
    free(text);
    return st;
}

void experiment_free(struct experiment *e)
{
    for (size_t i = 0; i < e->axes; i++) {
        struct experiment_axis *axis = &e->axis[i];
        for (size_t k = 0; k < axis->n; k++) {
            struct experiment_choice *c = &axis->choice[k];
            for (size_t s = 0; s < c->n; s++) {
                free(c->setting[s].key);
                free(c->setting[s].value);
            }
            free(c->setting);
            free(c->label);
        }
        free(axis->choice);
        free(axis->name);
    }
    free(e->axis);
    free(e->path);
    free(e->name);
    free(e->text);
    *e = (struct experiment){0};
}

/* ---- points */

/* How far apart the points are that differ by one choice of an axis. */
static size_t stride(const struct experiment *e, size_t axis)
{
    size_t n = 1;
    for (size_t i = axis + 1; i < e->axes; i++)
        n *= e->axis[i].n;
    return n;
}

size_t experiment_choice(const struct experiment *e, size_t point, size_t axis)
{
    return point / stride(e, axis) % e->axis[axis].n;
}

size_t experiment_with(const struct experiment *e, size_t point, size_t axis, size_t choice)
{
    size_t step = stride(e, axis);
    return point + choice * step - experiment_choice(e, point, axis) * step;
}

static int by_key(const void *a, const void *b)
{
    const struct experiment_setting *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

enum status experiment_settings(const struct experiment *e, size_t point,
                                const struct experiment_setting ***out, size_t *n)
{
    size_t total = 0, filled = 0;
    for (size_t i = 0; i < e->axes; i++)
        total += e->axis[i].choice[experiment_choice(e, point, i)].n;
    const struct experiment_setting **all = malloc((total + 1) * sizeof *all);
    if (!all)
        return out_of_memory();
    for (size_t i = 0; i < e->axes; i++) {
        const struct experiment_choice *c = &e->axis[i].choice[experiment_choice(e, point, i)];
        for (size_t s = 0; s < c->n; s++)
            all[filled++] = &c->setting[s];
    }
    qsort(all, total, sizeof *all, by_key);
    for (size_t i = 1; i < total; i++)
        if (!strcmp(all[i]->key, all[i - 1]->key)) {
            size_t a = all[i]->line, b = all[i - 1]->line;
            enum status st = error_set(STATUS_PARSE, "%s:%zu: '%s' is set in line %zu already",
                                       e->path, a > b ? a : b, all[i]->key, a > b ? b : a);
            free(all);
            return st;
        }
    *out = all;
    *n = total;
    return STATUS_OK;
}
