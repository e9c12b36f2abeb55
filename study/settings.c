/* Settings by name: parses options of commands and keys of files into one struct of arguments.
 *
 * A text becomes a value in set_value() only, whether it is a default, an option or a key, so
 * that all three obey the same bounds and fail with the same words. Messages say what was found and
 * what was expected; the caller puts the name before them as it was written: "--stages",
 * "plan.stages". */
#include "study/settings.h"

#include "study/settings_words.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/path.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/data/perturb.h"
#include "core/data/plan.h"

enum { KNOB_ALIASES = 160 }; /* letters of all aliases of a knob */

static const char plan_prefix[] = "plan.", capture_prefix[] = "capture.";

/* ---- takers */

static const struct {
    const char *command, *words;
} taker[TAKERS] = {
#define TAKER(name, command, words) {command, words},
#include "study/takers.def"
#undef TAKER
};

taker_set settings_takers(const char *command)
{
    taker_set all = 0;
    for (int i = 0; i < TAKERS; i++)
        all |= !strcmp(taker[i].command, command) ? (taker_set)1 << i : 0;
    return all;
}

taker_set settings_taker(const char *command, const char *words)
{
    for (int i = 0; i < TAKERS; i++)
        if (!strcmp(taker[i].command, command) && !strcmp(taker[i].words, words))
            return (taker_set)1 << i;
    return 0;
}

/* ---- rows */

/* Names repeat in the table, but no taker has two rows of one name (tests/test_settings.c). */
static const struct setting *setting_find_own(const char *name, taker_set takers)
{
    for (size_t i = 0; name && i < settings_table_n; i++)
        if ((settings_table[i].takers & takers) && text_same_key(settings_table[i].name, name))
            return &settings_table[i];
    return NULL;
}

/* "tp" of a knob, or "mbs" of another setting, where the takers take it. */
static const struct setting *setting_find_alias(const char *name, taker_set takers)
{
    char word[SETTING_WORD_SIZE];
    snprintf(word, sizeof word, "%s", name);
    for (char *at = word; *at; at++)
        *at = *at == '_' ? '-' : *at;
    const struct strategy_knob *knob = strategy_find(word);
    for (size_t i = 0; knob && i < settings_table_n; i++)
        if ((settings_table[i].takers & takers) && settings_table[i].knob == knob)
            return &settings_table[i];
    const struct setting *found = knob ? setting_find_own(knob->option, takers) : NULL;
    const char *means, *alias;
    for (size_t i = 0; !found && (alias = settings_alias(i, &means)); i++)
        found = !strcmp(alias, word) ? setting_find_own(means, takers) : NULL;
    return found;
}

const struct setting *setting_find(const char *name, taker_set takers)
{
    const struct setting *own = setting_find_own(name, takers);
    return own ? own : setting_find_alias(name, takers);
}

/* The nearest of the aliases, in *nearest: of knobs, then those of settings_alias(). */
static void setting_near_alias(const char *word, taker_set takers, size_t *best,
                               const char **nearest)
{
    char copy[KNOB_ALIASES], *alias[KNOB_ALIASES / 2];
    for (const struct strategy_knob *k = strategy_knobs; k < strategy_knobs + STRATEGY_KNOBS; k++) {
        const struct setting *s = k->alias ? setting_find(k->option, takers) : NULL;
        snprintf(copy, sizeof copy, "%s", s ? k->alias : "");
        for (size_t i = text_split(copy, " ", alias, KNOB_ALIASES / 2); i-- > 0;)
            if (text_is_nearer(word, alias[i], best))
                *nearest = s->name;
    }
    const char *means, *other;
    for (size_t i = 0; (other = settings_alias(i, &means)); i++)
        if (setting_find_own(means, takers) && text_is_nearer(word, other, best))
            *nearest = other;
}

const char *setting_nearest(const char *word, taker_set takers)
{
    const char *nearest = NULL;
    size_t best = text_reach(word);
    for (size_t i = 0; i < settings_table_n; i++)
        if ((settings_table[i].takers & takers) &&
            text_is_nearer(word, settings_table[i].name, &best))
            nearest = settings_table[i].name;
    setting_near_alias(word, takers, &best, &nearest);
    return nearest;
}

const char *setting_names(taker_set takers, char *text, size_t size)
{
    *text = '\0';
    for (size_t i = 0; i < settings_table_n; i++) {
        size_t n = strlen(text);
        if (settings_table[i].takers & takers)
            snprintf(text + n, size - n, "%s%s", n ? ", " : "", settings_table[i].name);
    }
    return text;
}

bool setting_names_file(const char *key)
{
    static const char *const read[] = {"model", "platform", "plan",   "import",
                                       "text",  "hosts",    "resume", "prices"};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (!strcmp(key, read[i]))
            return true;
    return false;
}

enum status setting_seen(const char *key, const char *value, const char *file, struct arena *texts,
                         const char **out)
{
    char *found = NULL;
    *out = value;
    if (setting_names_file(key)) {
        PASS(path_find(value, file, &found));
        *out = arena_text(texts, found);
        free(found);
    }
    return *out ? STATUS_OK : error_set(STATUS_NOMEM, "out of memory");
}

/* ---- values */

/* A whole number within the row's bounds. */
static enum status set_count(const struct setting *s, const char *text, size_t *out)
{
    uint64_t value;
    if (*text == '-' && text_count(text + 1, UINT64_MAX, &value))
        return error_set(STATUS_USAGE, "got %.60s, expected at least %g", text, s->least);
    if (!units_count(text, &value))
        return error_set(STATUS_USAGE, "got '%.60s', expected a whole number", text);
    if ((double)value < s->least)
        return error_set(STATUS_USAGE, "got %.60s, expected at least %g", text, s->least);
    if (s->most > 0 && (double)value > s->most)
        return error_set(STATUS_USAGE, "got %.60s, expected at most %.0f", text, s->most);
    *out = value;
    return STATUS_OK;
}

/* Nobody means so few bytes: 25 is 25 MB in other programs. */
static enum status set_bytes(const char *text, double *field)
{
    static const double few_bytes = 65536;
    double value;
    PASS(units_parse(UNIT_BYTES, text, &value));
    if (value > 0 && value < few_bytes && text[strspn(text, "0123456789.")] == '\0')
        return error_set(STATUS_INVALID, "'%.40s' has no unit; did you mean %.40sMB?", text, text);
    *field = value;
    return STATUS_OK;
}

static enum status set_real(const struct setting *s, const char *text, double *out)
{
    double value;
    bool counts = !strcmp(s->unit, "N");
    if (!text_real(text, &value) && !(counts && units_parse(UNIT_COUNT, text, &value) == STATUS_OK))
        return error_set(STATUS_USAGE, "got '%.60s', expected a number%s", text,
                         counts ? " such as 1e12 or 1T" : "");
    if (value < s->least)
        return error_set(STATUS_USAGE, "got %g, expected at least %g", value, s->least);
    if (s->most > 0 && value > s->most)
        return error_set(STATUS_USAGE, "got %g, expected at most %g", value, s->most);
    *out = value;
    return STATUS_OK;
}

const char *setting_word(const struct setting *s, size_t i, char text[SETTING_WORD_SIZE])
{
    const char *at = s->unit;
    if (s->word)
        return s->word(i);
    for (; at && i > 0; i--) {
        at = strchr(at, '|');
        at = at ? at + 1 : NULL;
    }
    if (at)
        snprintf(text, SETTING_WORD_SIZE, "%.*s", (int)strcspn(at, "|"), at);
    return at ? text : NULL;
}

/* "real, paced" */
static void list_words(const struct setting *s, char *text, size_t size)
{
    char word[SETTING_WORD_SIZE];
    const char *name;
    *text = '\0';
    for (size_t i = 0, n = 0; (name = setting_word(s, i, word)) && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%s", i ? ", " : "", name);
}

/* "there is no 'gpip'; did you mean 'gpipe'? there are sequential, gpipe, ..." */
static enum status setting_check_word(const struct setting *s, const char *text)
{
    char word[SETTING_WORD_SIZE], nearest[64] = "", hint[TEXT_HINT], known[512];
    const char *name;
    for (size_t i = 0, best = text_reach(text); (name = setting_word(s, i, word)); i++) {
        if (!strcmp(name, text))
            return STATUS_OK;
        if (text_is_nearer(text, name, &best))
            snprintf(nearest, sizeof nearest, "%s", name);
    }
    list_words(s, known, sizeof known);
    return error_set(STATUS_USAGE, "unknown value '%.60s'%s known: %s", text,
                     *text_hint(*nearest ? nearest : NULL, hint) ? hint : ";", known);
}

/* Parse a text into a field of the row's type. The field stays as it was on failure. */
static enum status set_value(const struct setting *s, const char *text, void *field)
{
    struct text_list *list = field;
    switch (s->type) {
    case SETTING_FLAG:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return error_set(STATUS_USAGE, "got '%.60s', expected true or false", text);
        *(bool *)field = !strcmp(text, "true");
        break;
    case SETTING_NUMBER:
        PASS(setting_check_word(s, text));
        return set_count(s, text, field);
    case SETTING_COUNT:
        return set_count(s, text, field);
    case SETTING_REAL:
        return set_real(s, text, field);
    case SETTING_SHARE:
        return perturbation_parse_jitter(text, field);
    case SETTING_SECONDS:
        return units_parse(UNIT_SECONDS, text, field);
    case SETTING_BYTES:
        return set_bytes(text, field);
    case SETTING_WORD:
        text = s->alias && s->alias(text) ? s->alias(text) : text;
        PASS(setting_check_word(s, text));
        *(const char **)field = text;
        break;
    case SETTING_TEXT:
        if (s->check)
            PASS(s->check(text));
        *(const char **)field = text;
        break;
    case SETTING_LIST:
        if (list->n == TEXT_LIST_MOST)
            return error_set(STATUS_USAGE, "given more than %d times", TEXT_LIST_MOST);
        list->item[list->n++] = text;
        break;
    }
    return STATUS_OK;
}

/* A knob's member has its own type: the text is read as any setting of the row's type. */
static enum status set_knob(const struct setting *s, const char *text, struct arguments *a)
{
    const struct strategy_knob *k = s->knob;
    union {
        bool flag;
        size_t count;
        double real;
        const char *word;
    } read = {0};
    double value;
    size_t word = 0;
    uint32_t modules = 0;
    PASS(set_value(s, text, &read));
    while (k->word && word + 1 < k->words && (!k->word[word] || strcmp(text, k->word[word]) != 0))
        word++;
    if (k->special == STRATEGY_MODULES)
        PASS(plan_read_modules(text, &modules));
    value = s->type == SETTING_FLAG                                 ? read.flag
            : s->type == SETTING_REAL || s->type == SETTING_BYTES   ? read.real
            : s->type == SETTING_COUNT || s->type == SETTING_NUMBER ? (double)read.count
            : k->word                                               ? (double)word
                                                                    : modules;
    if (k->most > 0 && value > k->most)
        return error_set(STATUS_USAGE, "got %g, expected at most %.0f", value, k->most);
    strategy_put(k, value, (char *)a + s->offset - k->offset);
    a->chosen |= UINT64_C(1) << (k - strategy_knobs);
    return STATUS_OK;
}

/* The only place that knows where fields are: offsets are into struct arguments alone. */
enum status setting_set(const struct setting *s, const char *text, struct arguments *a)
{
    size_t i = (size_t)(s - settings_table);
    if ((s->knob ? set_knob(s, text, a) : set_value(s, text, (char *)a + s->offset)) != STATUS_OK)
        return STATUS_USAGE;
    a->given[i / 64] |= UINT64_C(1) << i % 64;
    return STATUS_OK;
}

/* ---- arguments */

/* Defaults are texts, parsed as if they had been given, so that they need no second representation;
 * they do not count as given. */
struct arguments arguments_defaults(taker_set takers)
{
    struct arguments a = {0};
    for (size_t i = 0; i < settings_table_n; i++) {
        const struct setting *s = &settings_table[i];
        if (!(s->takers & takers) || !s->standard)
            continue; /* knobs have none: 0 is what is not said */
        enum status st = set_value(s, s->standard, (char *)&a + s->offset);
        (void)st; /* tests set every row's default */
    }
    return a;
}

static bool setting_is_given(const struct arguments *a, size_t i)
{
    return a->given[i / 64] >> i % 64 & 1;
}

bool arguments_given(const struct arguments *a, const char *name)
{
    for (size_t i = 0; i < settings_table_n; i++)
        if (setting_is_given(a, i) && !strcmp(settings_table[i].name, name))
            return true;
    return false;
}

/* Keys of plans have a prefix in files, "plan.stages", and none in the table. */
enum status arguments_set(struct arguments *a, taker_set takers, const char *name, const char *text)
{
    char hint[TEXT_HINT], known[1024];
    const char *key = name, *of = "";
    const bool plans = takers & TAKES(KEY_PLAN);
    if ((takers & TAKES(KEY_PLAN)) && !strncmp(name, plan_prefix, strlen(plan_prefix))) {
        key += strlen(plan_prefix);
        takers = TAKES(KEY_PLAN);
        of = " of plans";
    } else if ((takers & TAKES(KEY_CAPTURE)) && text_begins(name, capture_prefix)) {
        key += strlen(capture_prefix);
        takers = TAKES(KEY_CAPTURE);
        of = " of captures";
    } else if (takers != TAKES(KEY_PLAN)) {
        takers &= ~(TAKES(KEY_PLAN) | TAKES(KEY_CAPTURE));
    }
    const struct setting *s = setting_find(key, takers);
    if (s)
        return setting_set(s, text, a) == STATUS_OK ? STATUS_OK
                                                    : error_context(STATUS_USAGE, "%s", name);
    if (plans && setting_find(key, TAKES(KEY_PLAN)))
        return error_set(STATUS_USAGE, "'%.60s' is a setting of plans. Try %s%.60s", key,
                         plan_prefix, key);
    return error_set(STATUS_USAGE, "unknown setting%s '%.60s'%s known: %s", of, key,
                     *text_hint(setting_nearest(key, takers), hint) ? hint : ";",
                     setting_names(takers, known, sizeof known));
}

/* ---- command lines */

static bool setting_is_negatable(const struct setting *s)
{
    return s->type == SETTING_FLAG && (s->knob || s->negatable);
}

/* The row of "--name", "--name=value" or "-o"; *value points behind "=". NULL with the message. */
static const struct setting *find_option(const char *argument, taker_set takers, const char **value)
{
    static const taker_set of_plan_files =
        TAKES(SIMULATE) | TAKES(RUN_REAL) | TAKES(EMULATE_SMPI) | TAKES(CAMPAIGN);
    enum status st;
    char name[64], hint[TEXT_HINT], nearest[64];
    const struct setting *s = NULL;
    bool is_long = !strncmp(argument, "--", 2);
    size_t length = strcspn(argument, "=");
    *value = argument[length] ? argument + length + 1 : NULL;
    snprintf(name, sizeof name, "%.*s", (int)length, argument);
    if (is_long || !strcmp(name, "-o"))
        s = setting_find(is_long ? name + 2 : "output", takers);
    if (s)
        return s;
    if (!strncmp(name, "--no-", 5) && !*value) {
        s = setting_find(name + 5, takers);
        *value = "false";
        if (s && setting_is_negatable(s))
            return s;
    }
    const char *near = setting_nearest(name + strspn(name, "-"), takers);
    snprintf(nearest, sizeof nearest, "--%s", near ? near : "");
    bool is_planned = !strcmp(name, "--model") || !strcmp(name, "--platform") ||
                      (is_long && setting_find(name + 2, TAKES(KEY_PLAN)));
    if (is_planned && (takers & of_plan_files))
        st = error_set(STATUS_USAGE,
                       "option %s has no effect: the plan file defines it; make another plan with "
                       "foreline plan %s",
                       name, name);
    else
        st = error_set(STATUS_USAGE, "unknown option %s%s list all with --help all", name,
                       *text_hint(near ? nearest : NULL, hint) ? hint : ";");
    (void)st;
    return NULL;
}

/* One pass that keeps operands in their order; nothing behind "--" is an option. */
enum status arguments_parse(struct arguments *a, taker_set takers, int *argc, char **argv)
{
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
        const struct setting *s = find_option(name, takers, &value);
        if (!s)
            return STATUS_USAGE;
        bool flag = s->type == SETTING_FLAG;
        if (setting_is_given(a, (size_t)(s - settings_table)) && s->type != SETTING_LIST)
            return error_set(STATUS_USAGE, "--%s is given twice", s->name);
        bool negated = setting_is_negatable(s) && !strncmp(name, "--no-", 5);
        if (flag && value && !negated)
            return error_set(STATUS_USAGE, "--%s takes no value", s->name);
        if (!flag && !value && ++i == *argc)
            return error_set(STATUS_USAGE, "%s needs a value (%s)", name, s->unit);
        if (setting_set(s, flag && !negated ? "true" : value ? value : argv[i], a) != STATUS_OK)
            return error_context(STATUS_USAGE, "--%s", s->name);
    }
    for (; i < *argc; i++)
        argv[operands++] = argv[i];
    *argc = operands;
    return STATUS_OK;
}

/* Is it the way that has its name from the setting, "--json" of json? */
static bool is_way_itself(const struct setting *s, const char *words)
{
    return !strncmp(words, "--", 2) && !strcmp(words + 2, s->name);
}

/* "--device cpu or --device cuda": the other ways of `command` that take the setting. */
static void list_ways(const struct setting *s, const char *command, char *text, size_t size)
{
    *text = '\0';
    for (int i = 0; i < TAKERS; i++) {
        size_t n = strlen(text);
        if ((s->takers >> i & 1) && *taker[i].words && !is_way_itself(s, taker[i].words) &&
            !strcmp(taker[i].command, command))
            snprintf(text + n, size - n, "%s%s", n ? " or " : "", taker[i].words);
    }
}

/* Every pair of a given row and a way in which the command is called: rows of the command that lack
 * the way are refused; rows that only others take, such as keys of files, are not its business. */
enum status arguments_check(const struct arguments *a, taker_set takers)
{
    char ways[512];
    for (size_t i = 0; i < settings_table_n; i++)
        for (int k = 0; k < TAKERS && setting_is_given(a, i); k++) {
            taker_set mine = settings_table[i].takers;
            if (!(takers >> k & 1) || (mine >> k & 1) ||
                !(mine & settings_takers(taker[k].command)))
                continue;
            list_ways(&settings_table[i], taker[k].command, ways, sizeof ways);
            return error_set(STATUS_USAGE, "--%s has no effect with %s%s%s", settings_table[i].name,
                             taker[k].words, *ways ? ", only with " : "", ways);
        }
    return STATUS_OK;
}

/* ---- help */

/* Help and default, and the names of a table where the value is one of them. */
void setting_describe(const struct setting *s, char *text, size_t size)
{
    char names[512];
    size_t n = (size_t)snprintf(text, size, "%s", s->help);
    if (s->word && n < size) {
        list_words(s, names, sizeof names);
        n += (size_t)snprintf(text + n, size - n, ": %s", names);
    }
    if (s->standard && n < size)
        snprintf(text + n, size - n, " [%s]", s->standard);
}

/* Subjects in the order of the members of struct arguments: each begins at one. */
static const struct subject {
    size_t begin;
    const char *heading;
} subjects[] = {
    {offsetof(struct arguments, model), "model and platform"},
    {offsetof(struct arguments, shared), "parallelism"},
    {offsetof(struct arguments, schedule), "schedule"},
    {offsetof(struct arguments, reserve), "memory"},
    {offsetof(struct arguments, objective), "search"},
    {offsetof(struct arguments, sim), "simulation"},
    {offsetof(struct arguments, launch), "run"},
    {offsetof(struct arguments, emulation), "emulated network"},
    {offsetof(struct arguments, jobs), "several jobs"},
    {offsetof(struct arguments, campaign), "campaign"},
    {offsetof(struct arguments, measure), "measuring"},
    {offsetof(struct arguments, machine), "imported machine"},
    {offsetof(struct arguments, capture), "captured script"},
    {offsetof(struct arguments, grid), "points"},
    {offsetof(struct arguments, fits), "comparison with measurements"},
    {offsetof(struct arguments, picture), "picture"},
    {offsetof(struct arguments, picture.look), "look of the picture"},
    {offsetof(struct arguments, port), "other frameworks"},
    {offsetof(struct arguments, papers), "published objectives"},
    {offsetof(struct arguments, output), "output"},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

static const char *heading_of(const struct setting *s)
{
    size_t i = 0, at = s->knob && s->knob->memory ? offsetof(struct arguments, reserve) : s->offset;
    while (i + 1 < SUBJECTS && subjects[i + 1].begin <= at)
        i++;
    return subjects[i].heading;
}

void setting_print_name(const struct setting *s, taker_set takers, char *text, size_t size)
{
    enum { INITIALS = 3 };
    const char *means, *alias = s->knob && s->knob->alias ? s->knob->alias : "";
    size_t letters = strcspn(alias, " ");
    for (size_t i = 0; letters == 0 || letters > INITIALS; i++) {
        alias = settings_alias(i, &means);
        if (!alias)
            break;
        letters = setting_find(alias, takers) == s ? strlen(alias) : 0;
    }
    snprintf(text, size, "--%s%s%.*s%s%s", s->name, alias ? ", --" : "", (int)letters,
             alias ? alias : "", s->unit ? " " : "", s->unit ? s->unit : "");
}

static void print_row(const struct setting *s, taker_set takers, FILE *out)
{
    enum { INDENT = 33, LIMIT = 96 };
    char name[64], text[1024];
    setting_print_name(s, takers, name, sizeof name);
    setting_describe(s, text, sizeof text);
    fprintf(out, "  %-30s%s", name, strlen(name) <= 30 ? " " : "\n");
    if (strlen(name) > 30)
        fprintf(out, "%*s", INDENT, "");
    text_put_wrapped(out, text, INDENT, LIMIT);
}

void settings_print(taker_set takers, FILE *out)
{
    for (size_t i = 0; i < SUBJECTS; i++) {
        const char *heading = subjects[i].heading;
        for (const struct setting *s = settings_table; s < settings_table + settings_table_n; s++) {
            if (!(s->takers & takers) || s->hidden ||
                strcmp(heading_of(s), subjects[i].heading) != 0)
                continue;
            if (heading)
                fprintf(out, "\n%s:\n", heading);
            heading = NULL;
            print_row(s, takers, out);
        }
    }
}

void settings_print_some(taker_set takers, const char *names, FILE *out)
{
    char copy[512], *name[SETTINGS_SOME];
    snprintf(copy, sizeof copy, "%s", names);
    size_t n = text_split(copy, " ", name, SETTINGS_SOME);
    for (size_t i = 0; i < n; i++) {
        const struct setting *s = setting_find(name[i], takers);
        assert(s);
        print_row(s, takers, out);
    }
}

enum { FILES = 10, READ = 12 };
static const char *const file_names[FILES] = {
    "-o",           "--trace",  "--timeline", "--matrix", "--batch-tokens",
    "--candidates", "--series", "--strategy", "--graph",  "--export"};

/* That are written; NULL: not. Those that can be tried come first. */
enum { TRIED = 6 };
static void name_files(const struct arguments *a, const char *file[FILES])
{
    const char *exported = a->sim.export ? strchr(a->sim.export, '=') : NULL;
    file[0] = a->output;
    file[1] = a->trace;
    file[2] = a->timeline;
    file[3] = a->measure.matrix;
    file[4] = a->launch.batch_tokens;
    file[5] = a->search.candidates;
    file[6] = a->papers.series;
    file[7] = a->papers.strategy;
    file[8] = a->measure.graph;
    file[9] = exported ? exported + 1 : NULL;
}

/* PREFIX.RANK, as a log of a rank is called. */
static bool is_log_of(const char *read, const char *prefix)
{
    char path[PATH_MAX];
    const char *dot = prefix ? strrchr(read, '.') : NULL;
    return dot && dot[1] && strspn(dot + 1, "0123456789") == strlen(dot + 1) &&
           snprintf(path, sizeof path, "%s%s", prefix, dot) < (int)sizeof path &&
           file_same(read, path);
}

/* One file that is read, perhaps with overrides behind its name: is it written, too? `plan` names
 * it, NULL: the command line. */
static enum status keep_one(const struct arguments *a, const char *reference, const char *plan)
{
    const char *file[FILES], *by = NULL, *where = plan ? " by " : "";
    char path[PATH_MAX];
    const char *read = path_file(reference, path, sizeof path) ? path : reference;
    name_files(a, file);
    for (size_t i = 0; i < FILES && !by; i++)
        by = file[i] && file_same(read, file[i]) ? file_names[i] : NULL;
    by = !by && is_log_of(read, a->launch.log) ? "--log" : by;
    return by ? error_set(STATUS_USAGE,
                          "%s: %s would overwrite an input file%s%s; choose another name", read, by,
                          where, plan ? plan : "")
              : STATUS_OK;
}

/* The model and the platform of a plan file. Other files, and plans that the command will refuse,
 * name nothing here. */
static enum status keep_named(const struct arguments *a, const char *plan)
{
    enum status st = STATUS_OK;
    struct json_document d = {0};
    char *name[2] = {NULL, NULL}, *found = NULL;
    char path[PATH_MAX];
    if (!plan || !path_file(plan, path, sizeof path)) /* a pipe is read once */
        return STATUS_OK;
    if (json_read(plan, plan_format, PLAN_VERSION, &d) != STATUS_OK ||
        plan_references(&d, &name[0], &name[1]) != STATUS_OK)
        goto out;
    for (size_t i = 0; i < 2; i++) {
        TRY(path_find(name[i], plan, &found));
        TRY(keep_one(a, found, plan));
        free(found);
        found = NULL;
    }
out:
    free(found);
    free(name[0]);
    free(name[1]);
    json_document_free(&d);
    return st;
}

static bool writes_files(const struct arguments *a)
{
    const char *file[FILES];
    name_files(a, file);
    for (size_t i = 0; i < FILES; i++)
        if (file[i])
            return true;
    return a->launch.log;
}

enum status arguments_keep_inputs(const struct arguments *a, char *const *operand, int operands)
{
    const char *file[FILES];
    const char *read[READ] = {a->model,         a->platform,       a->launch.text,
                              a->launch.hosts,  a->run.config,     a->measure.from,
                              a->papers.speeds, a->machine.fabric, a->papers.score,
                              a->plan_file,     a->search.explain, a->jobs.background};
    name_files(a, file);
    for (size_t i = 0; i < FILES; i++)
        for (size_t k = 0; k < i && file[i]; k++)
            if (file[k] && !strcmp(file[i], file[k]) && strcmp(file[i], "-") != 0 &&
                strncmp(file[i], "/dev/", 5) != 0)
                return error_set(STATUS_USAGE,
                                 "%s: %s and %s would both write this file; choose two names",
                                 file[i], file_names[k], file_names[i]);
    for (size_t i = 0; i < READ; i++)
        if (read[i])
            PASS(keep_one(a, read[i], NULL));
    for (size_t i = 0; i < a->platforms.n; i++)
        PASS(keep_one(a, a->platforms.item[i], NULL));
    for (int i = 0; i < operands; i++)
        PASS(keep_one(a, operand[i], NULL));
    if (!writes_files(a))
        return STATUS_OK;
    for (int i = 0; i < operands; i++)
        PASS(keep_named(a, operand[i]));
    PASS(keep_named(a, a->plan_file));
    PASS(keep_named(a, a->search.explain));
    return STATUS_OK;
}

FILE *arguments_prose(const struct arguments *a)
{
    const char *file[FILES];
    name_files(a, file);
    for (size_t i = 0; i < TRIED; i++)
        if (file[i] && (!strcmp(file[i], "-") || !strcmp(file[i], "/dev/stdout")))
            return stderr;
    return stdout;
}

enum status arguments_try_files(const struct arguments *a)
{
    const char *file[FILES];
    name_files(a, file);
    for (size_t i = 0; i < TRIED; i++)
        if (file[i])
            PASS(file_try(file[i]));
    return STATUS_OK;
}
