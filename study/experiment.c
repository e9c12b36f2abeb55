/* From a YAML tree to axes. All texts are those of the tree, which lives in the experiment's arena.
 * Every key that is no word of experiments (name, cases, finalists, repeats, best) is a setting. */
#include "study/experiment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/intern.h"
#include "core/base/looks.h"
#include "core/base/path.h"
#include "core/base/text.h"
#include "topologies/yaml.h"

enum { KEY = 256 };
static const char cases_key[] = "cases", seed_key[] = "seed", plan_prefix[] = "plan.",
                  best_key[] = "best";

struct experiment_reader {
    const struct experiment_check *check;
    struct experiment e;
    struct interner labels; /* of the axis that is being read */
    size_t repeats, repeats_line;
    const struct yaml_value *best_of;
};

/* STATUS_PARSE with the place. */
#define FAULT(r, line, fmt, ...)                                                                   \
    error_set(STATUS_PARSE, "%s:%zu: " fmt, (r)->e.path, line, __VA_ARGS__)

/* A copy in the experiment's arena. */
static enum status experiment_keep_text(struct experiment_reader *r, const char *text,
                                        const char **out)
{
    *out = arena_text(&r->e.arena, text);
    return *out ? STATUS_OK : STATUS_NOMEM;
}

/* ---- settings */

/* One more setting of a choice. The caller's check comes first, so that its message has the
 * line. */
static enum status add_setting(struct experiment_reader *r, struct experiment_choice *c,
                               const char *key, const struct yaml_value *v)
{
    enum status st;
    if (!v->text)
        return FAULT(r, v->line, "%s: expected one value", key);
    if (r->check && (st = r->check->setting(r->check->context, key, v->text)) != STATUS_OK)
        return st == STATUS_NOMEM ? st : error_context(STATUS_PARSE, "%s:%zu", r->e.path, v->line);
    PASS(ARENA_ROOM(&r->e.arena, c->setting, c->n));
    c->setting[c->n] = (struct experiment_setting){.value = v->text, .line = v->line};
    return experiment_keep_text(r, key, &c->setting[c->n++].key);
}

/* An axis of n choices. The product of all n is the number of points, which is kept small enough
 * for arrays of them. */
static enum status new_axis(struct experiment_reader *r, const char *name, size_t line, size_t n,
                            struct experiment_axis **out)
{
    struct experiment *e = &r->e;
    if (e->axes == EXPERIMENT_AXES)
        return FAULT(r, line, "%s: too many settings", name);
    if (n == 0)
        return FAULT(r, line, "%s: list is empty", name);
    if (e->points > EXPERIMENT_POINTS / n)
        return FAULT(r, line, "%s: more than a million points", name);
    PASS(ARENA_ROOM(&e->arena, e->axis, e->axes));
    struct experiment_axis *axis = *out = &e->axis[e->axes];
    *axis = (struct experiment_axis){.line = line, .n = n};
    interner_free(&r->labels);
    axis->choice = arena_new(&e->arena, n, sizeof *axis->choice);
    if (!axis->choice)
        return STATUS_NOMEM;
    PASS(experiment_keep_text(r, name, &axis->name));
    e->axes++;
    e->points *= n;
    return STATUS_OK;
}

/* Call choice i what nothing before it is called. */
static enum status experiment_set_label(struct experiment_reader *r, struct experiment_axis *axis,
                                        size_t i, const char *label, size_t line, const char *twice)
{
    uint32_t number;
    bool fresh;
    PASS(intern(&r->labels, label, strlen(label), &number, &fresh));
    if (!fresh)
        return FAULT(r, line, "%s'%s'%s", twice, label, *twice ? "" : " is twice in this list");
    axis->choice[i].label = label;
    return STATUS_OK;
}

/* A setting, or cases, and the name is that of other cases, or of a setting. */
static enum status check_name(struct experiment_reader *r, const char *name, size_t line,
                              bool cases)
{
    size_t i = experiment_find(&r->e, name);
    if (i < r->e.axes && (cases || r->e.axis[i].cases))
        return FAULT(r, line, "cases: '%s' is already used in line %zu", name, r->e.axis[i].line);
    return STATUS_OK;
}

/* The key as settings have it, "_" as "-": key[KEY]. Names of models and platforms stay as they
 * are. */
static const char *experiment_key(const char *text, char key[KEY])
{
    snprintf(key, KEY, "%s", text);
    if (!text_begins(key, "model.") && !text_begins(key, "platform."))
        for (char *at = key; *at; at++)
            *at = *at == '_' ? '-' : *at;
    return key;
}

/* One value, or a list of them. */
static enum status add_axis(struct experiment_reader *r, const char *name,
                            const struct yaml_value *v)
{
    char key[KEY];
    struct experiment_axis *axis;
    bool list = !v->text && !v->is_map;
    experiment_key(name, key);
    PASS(check_name(r, key, v->line, false));
    PASS(new_axis(r, key, v->line, list ? v->items : 1, &axis));
    for (size_t i = 0; i < axis->n; i++) {
        const struct yaml_value *item = list ? &v->item[i] : v;
        PASS(add_setting(r, &axis->choice[i], key, item));
        PASS(experiment_set_label(r, axis, i, item->text, item->line, ""));
    }
    return STATUS_OK;
}

/* Call `use` for every text or list below a map, with the keys joined by dots. */
static enum status
experiment_flatten(struct experiment_reader *r, const char *prefix, const struct yaml_value *map,
                   enum status (*use)(struct experiment_reader *r, void *to, const char *key,
                                      const struct yaml_value *v),
                   void *to)
{
    for (size_t i = 0; i < map->entries; i++) {
        const struct yaml_entry *entry = &map->entry[i];
        char key[KEY];
        int n = snprintf(key, sizeof key, "%s%s%s", prefix, *prefix ? "." : "", entry->key);
        if (n >= KEY)
            return FAULT(r, entry->value.line, "'%.40s...': name too long", key);
        if (entry->value.is_map)
            PASS(experiment_flatten(r, key, &entry->value, use, to));
        else
            PASS(use(r, to, key, &entry->value));
    }
    return STATUS_OK;
}

/* ---- cases */

static enum status add_to_case(struct experiment_reader *r, void *to, const char *key,
                               const struct yaml_value *v)
{
    struct experiment_choice *c = to;
    char own[KEY];
    if (strcmp(key, "name") != 0)
        return add_setting(r, c, experiment_key(key, own), v);
    c->label = v->text;
    return v->text ? STATUS_OK : FAULT(r, v->line, "%s: expected one text", key);
}

static enum status add_cases(struct experiment_reader *r, const char *name,
                             const struct yaml_value *v)
{
    struct experiment_axis *axis;
    if (v->text || v->is_map)
        return FAULT(r, v->line, "%s: expected a list of maps", cases_key);
    PASS(check_name(r, name, v->line, true));
    PASS(new_axis(r, name, v->line, v->items, &axis));
    axis->cases = true;
    for (size_t i = 0; i < axis->n; i++) {
        struct experiment_choice *c = &axis->choice[i];
        const struct yaml_value *item = &v->item[i];
        char number[24];
        if (!item->is_map)
            return FAULT(r, item->line, "%s: expected a map of settings", cases_key);
        PASS(experiment_flatten(r, "", item, add_to_case, c));
        snprintf(number, sizeof number, "%zu", i + 1);
        if (!c->label)
            PASS(experiment_keep_text(r, number, &c->label));
        PASS(experiment_set_label(r, axis, i, c->label, item->line, "two cases have the name "));
    }
    return STATUS_OK;
}

/* ---- the words that are no settings */

/* A whole number; repeats and finalists are far below 10,000 whenever they make sense. */
static enum status experiment_read_count(struct experiment_reader *r, const char *key,
                                         const struct yaml_value *v, size_t *out)
{
    uint64_t n;
    if (!v->text || !text_count(v->text, 10000, &n))
        return FAULT(r, v->line, "%s: expected a number from 0 to 10000", key);
    *out = n;
    return STATUS_OK;
}

/* best: {of: [axes], by: column}. The axes need not be read yet, so that they are looked up
 * later. */
static enum status read_best(struct experiment_reader *r, const struct yaml_value *v)
{
    if (!v->is_map)
        return FAULT(r, v->line, "%s: expected a map of 'of' and 'by'", best_key);
    for (size_t i = 0; i < v->entries; i++) {
        const struct yaml_entry *entry = &v->entry[i];
        const char *text = entry->value.text;
        if (!strcmp(entry->key, "of") && !entry->value.is_map)
            r->best_of = &entry->value;
        else if (!strcmp(entry->key, "by") && text &&
                 (!strcmp(text, "samples_per_s") || !strcmp(text, "iteration_s") ||
                  !strcmp(text, "days"))) {
            r->e.by_days = !strcmp(text, "days");
            r->e.fewest_seconds = strcmp(text, "samples_per_s") != 0;
        } else
            return FAULT(r, entry->value.line,
                         "best.%s: unknown key, expected of: [names of axes] and by: "
                         "samples_per_s, iteration_s or days",
                         entry->key);
    }
    return STATUS_OK;
}

/* Files and folders are called so. */
static enum status experiment_take_name(struct experiment_reader *r, const struct yaml_value *v)
{
    if (!v->text)
        return FAULT(r, v->line, "%s: expected one text", "name");
    if (!path_is_name(v->text))
        return FAULT(r, v->line, "name: '%.60s' is not a valid file name", v->text);
    r->e.name = v->text;
    return STATUS_OK;
}

/* A word of experiments, or else a setting. */
static enum status read_entry(struct experiment_reader *r, const struct yaml_entry *entry)
{
    const struct yaml_value *v = &entry->value;
    if (!strcmp(entry->key, "name"))
        return experiment_take_name(r, v);
    if (!strcmp(entry->key, cases_key))
        return add_cases(r, "case", v);
    if (!strcmp(entry->key, "finalists"))
        return experiment_read_count(r, entry->key, v, &r->e.finalists);
    if (!strcmp(entry->key, "repeats")) {
        r->repeats_line = v->line;
        return experiment_read_count(r, entry->key, v, &r->repeats);
    }
    if (!strcmp(entry->key, best_key))
        return read_best(r, v);
    return add_axis(r, entry->key, v);
}

static enum status use_axis(struct experiment_reader *r, void *to, const char *key,
                            const struct yaml_value *v)
{
    (void)to;
    return add_axis(r, key, v);
}

/* ---- what follows from it all */

static struct experiment_axis *find_axis(struct experiment *e, const char *name)
{
    size_t i = experiment_find(e, name);
    return i < e->axes ? &e->axis[i] : NULL;
}

/* `repeats` is an axis of seeds, 1 to so many, as if they had been listed. */
static enum status add_repeats(struct experiment_reader *r)
{
    struct experiment_axis *seed = find_axis(&r->e, seed_key);
    struct yaml_value list = {.line = r->repeats_line, .items = r->repeats};
    if (r->repeats_line && r->repeats == 0)
        return FAULT(r, r->repeats_line, "%s: expected at least 1", "repeats");
    if (r->repeats && seed)
        return FAULT(r, r->repeats_line,
                     "repeats: cannot be combined with the list of seeds under '%s'", seed_key);
    if (r->repeats) {
        list.item = arena_new(&r->e.arena, r->repeats, sizeof *list.item);
        for (size_t i = 0; list.item && i < r->repeats; i++) {
            char number[24];
            snprintf(number, sizeof number, "%zu", i + 1);
            list.item[i].line = r->repeats_line;
            list.item[i].text = arena_text(&r->e.arena, number);
        }
        if (!list.item || !list.item[r->repeats - 1].text)
            return STATUS_NOMEM;
        PASS(add_axis(r, seed_key, &list));
        seed = find_axis(&r->e, seed_key);
    }
    if (seed)
        seed->seeds = seed->n > 1;
    return STATUS_OK;
}

static enum status experiment_choose_axis(struct experiment_reader *r, const struct yaml_value *v)
{
    struct experiment_axis *axis = v->text ? find_axis(&r->e, v->text) : NULL;
    if (!axis)
        return FAULT(r, v->line, "best.of: '%s' is not a setting of this file",
                     v->text ? v->text : "");
    axis->chosen = true;
    return STATUS_OK;
}

/* Does an axis choose between plans, and set nothing else? */
static bool is_of_plan(const struct experiment_axis *axis)
{
    size_t n = 0;
    for (size_t i = 0; i < axis->n; i++)
        for (size_t k = 0; k < axis->choice[i].n; k++, n++) {
            const char *key = axis->choice[i].setting[k].key;
            if (strcmp(key, "plan") != 0 && strncmp(key, plan_prefix, strlen(plan_prefix)) != 0)
                return false;
        }
    return axis->n > 1 && n > 0;
}

/* Which axes are chosen over: those asked for, else those of the plan. */
static enum status choose_axes(struct experiment_reader *r)
{
    if (r->best_of && r->best_of->text)
        return experiment_choose_axis(r, r->best_of);
    for (size_t i = 0; r->best_of && i < r->best_of->items; i++)
        PASS(experiment_choose_axis(r, &r->best_of->item[i]));
    for (size_t i = 0; !r->best_of && i < r->e.axes; i++)
        r->e.axis[i].chosen = is_of_plan(&r->e.axis[i]);
    return STATUS_OK;
}

/* "dir/bandwidth.yml" -> "bandwidth" */
static enum status name_it(struct experiment *e)
{
    const char *slash = strrchr(e->path, '/'), *base = slash ? slash + 1 : e->path,
               *dot = strrchr(base, '.');
    size_t n = dot && dot > base ? (size_t)(dot - base) : strlen(base);
    e->name = arena_text_n(&e->arena, base, n);
    return e->name ? STATUS_OK : STATUS_NOMEM;
}

/* Settings in the order of the file, then what follows from all of them: seeds, axes that are
 * chosen over, the name. In the end every choice of every axis is looked at once, with the first
 * choices of the others: a key that is set by two axes shows there. */
static enum status experiment_read_all(struct experiment_reader *r, const struct yaml_value *root)
{
    const struct experiment_setting **settings;
    size_t n;
    for (size_t i = 0; i < root->entries; i++) {
        const struct yaml_entry *entry = &root->entry[i];
        bool named = entry->value.is_map && !strcmp(entry->key, cases_key);
        for (size_t k = 0; named && k < entry->value.entries; k++)
            PASS(add_cases(r, entry->value.entry[k].key, &entry->value.entry[k].value));
        if (named)
            continue;
        if (entry->value.is_map && strcmp(entry->key, best_key) != 0)
            PASS(experiment_flatten(r, entry->key, &entry->value, use_axis, NULL));
        else
            PASS(read_entry(r, entry));
    }
    PASS(add_repeats(r));
    PASS(choose_axes(r));
    if (!r->e.name)
        PASS(name_it(&r->e));
    for (size_t i = 0; i < r->e.axes; i++) /* each case once: is any key set twice? */
        for (size_t k = 0; k < r->e.axis[i].n; k++) {
            PASS(experiment_settings(&r->e, experiment_with(&r->e, 0, i, k), &settings, &n));
            free(settings);
        }
    return STATUS_OK;
}

enum status experiment_parse(const char *path, const char *text, size_t length,
                             const struct experiment_check *check, struct experiment *out)
{
    enum status st;
    struct experiment_reader r = {.check = check, .e = {.points = 1}};
    struct yaml_value root = {0};
    char looks[LOOKS];
    if (length > EXPERIMENT_BYTES)
        return error_set(STATUS_PARSE, "%s: file has %zu bytes, expected at most %d", path, length,
                         EXPERIMENT_BYTES);
    TRY(experiment_keep_text(&r, path, &r.e.path));
    char first = text[strspn(text, " \t\r\n")];
    if ((first == '{' || first == '<') && *looks_like(text, length, looks)) /* JSON is YAML, too */
        FAIL(STATUS_PARSE, "%s:1: expected an experiment file%s", path, looks);
    TRY(yaml_read(path, text, length, &r.e.arena, &root));
    TRY(experiment_keep_text(&r, text, &r.e.text));
    digest_hex(text, length, r.e.sha256);
    TRY(experiment_read_all(&r, &root));
    MOVE(out, r.e);
out:
    interner_free(&r.labels);
    experiment_free(&r.e);
    return st;
}

enum status experiment_read(const char *path, const struct experiment_check *check,
                            struct experiment *out)
{
    char *text = NULL;
    size_t length;
    enum status st = file_read_most(path, MOST_ARGUMENTS, &text, &length);
    if (st == STATUS_OK)
        st = experiment_parse(path, text, length, check, out);
    free(text);
    return st;
}

void experiment_free(struct experiment *e)
{
    arena_free(&e->arena);
    *e = (struct experiment){0};
}

/* ---- points */

/* Numbers of points are mixed-radix numbers with a digit for each axis, the last axis the least
 * significant one. The stride of an axis is the weight of its digit. */
static size_t stride(const struct experiment *e, size_t axis)
{
    size_t n = 1;
    for (size_t i = axis + 1; i < e->axes; i++)
        n *= e->axis[i].n;
    return n;
}

size_t experiment_find(const struct experiment *e, const char *name)
{
    size_t i = 0;
    while (i < e->axes && !text_same_key(e->axis[i].name, name))
        i++;
    return i;
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

static const struct experiment_choice *experiment_is_chosen(const struct experiment *e,
                                                            size_t point, size_t axis)
{
    return &e->axis[axis].choice[experiment_choice(e, point, axis)];
}

const char *experiment_label(const struct experiment *e, size_t point, size_t axis)
{
    return experiment_is_chosen(e, point, axis)->label;
}

/* Where "equal" stands for a number that was found. */
static const struct experiment_setting *settled(const struct experiment *e, size_t point,
                                                const struct experiment_setting *s)
{
    const struct experiment_setting *equal = e->equal ? e->equal[point] : NULL;
    return equal && !strcmp(equal->key, s->key) ? equal : s;
}

const char *experiment_value(const struct experiment *e, size_t point, const char *key)
{
    for (size_t i = 0; i < e->axes; i++) {
        const struct experiment_choice *c = experiment_is_chosen(e, point, i);
        for (size_t s = 0; s < c->n; s++)
            if (!strcmp(c->setting[s].key, key))
                return settled(e, point, &c->setting[s])->value;
    }
    return NULL;
}

static int by_key(const void *a, const void *b)
{
    const struct experiment_setting *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

/* Sorted by key, so that the same settings have the same hash whatever the order of the file. */
enum status experiment_settings(const struct experiment *e, size_t point,
                                const struct experiment_setting ***out, size_t *n)
{
    enum status st;
    size_t total = 0, filled = 0;
    const struct experiment_setting **all = NULL;
    for (size_t i = 0; i < e->axes; i++)
        total += experiment_is_chosen(e, point, i)->n;
    TRY(ARRAY_NEW(all, total));
    for (size_t i = 0; i < e->axes; i++)
        for (size_t s = 0; s < experiment_is_chosen(e, point, i)->n; s++)
            all[filled++] = settled(e, point, &experiment_is_chosen(e, point, i)->setting[s]);
    qsort(all, total, sizeof *all, by_key);
    for (size_t i = 1; i < total; i++)
        if (!strcmp(all[i]->key, all[i - 1]->key)) {
            size_t a = all[i]->line, b = all[i - 1]->line;
            st = error_set(STATUS_PARSE, "%s:%zu: '%s' is given twice, first in line %zu", e->path,
                           a > b ? a : b, all[i]->key, a > b ? b : a);
            goto out;
        }
    *out = all;
    *n = total;
    all = NULL;
out:
    free(all);
    return st;
}
