/* Tables of steps: a header, then a line for each step, or for each step and rank. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "measured/cells.h"
#include "measured/reader.h"

enum column {
    COLUMN_STEP,
    COLUMN_RANK,
    COLUMN_TIME,
    COLUMN_SAMPLES_RATE,
    COLUMN_TOKENS_RATE,
    COLUMN_SAMPLES,
    COLUMN_CONFIGURATION
};

static const struct {
    const char *name;
    enum column column;
} known[] = {
    {"step", COLUMN_STEP},
    {"iteration", COLUMN_STEP},
    {"iter", COLUMN_STEP},
    {"rank", COLUMN_RANK},
    {"samples_per_s", COLUMN_SAMPLES_RATE},
    {"tokens_per_s_per_gpu", COLUMN_TOKENS_RATE},
    {"batch", COLUMN_SAMPLES},
    {"global_batch_size", COLUMN_SAMPLES},
    {"samples", COLUMN_SAMPLES},
};

/* "iteration_s", "step_time (ms)", "elapsed_us", "seconds": a time, and how many seconds its unit
 * has. */
static bool is_time(const char *name, double *scale)
{
    static const char *const what[] = {"iteration",      "step",      "iter",
                                       "time",           "elapsed",   "duration",
                                       "iteration_time", "step_time", "elapsed_time"};
    size_t length = strcspn(name, " (");
    const char *unit = strchr(name, '(');
    if (strcmp(name, "seconds") == 0) {
        *scale = 1;
        return true;
    }
    if (unit) {
        *scale = cells_unit(unit + 1, strcspn(unit + 1, ")"));
    } else {
        const char *end = strrchr(name, '_');
        if (!end)
            return false;
        *scale = cells_unit(end + 1, strlen(end + 1));
        length = (size_t)(end - name);
    }
    for (size_t i = 0; *scale > 0 && i < sizeof what / sizeof *what; i++)
        if (strlen(what[i]) == length && strncmp(name, what[i], length) == 0)
            return true;
    return false;
}

static bool activity_csv_is_among(const char *word, size_t n, const char *const *list, size_t words)
{
    for (size_t k = 0; k < words; k++)
        if (strlen(list[k]) == n && strncmp(list[k], word, n) == 0)
            return true;
    return false;
}

/* Does a column say what was run, not how it went? All words of its header are such: "# GPUs",
 * "tensor parallelism", "tp", "hidden_size", but not "dp_comm_ms" or "global_step". Batches as
 * training logs have them may grow during a run. */
static bool is_configuration(const char *name)
{
    static const char *const what[] = {
        "gpus",       "devices",      "nodes",  "ranks",   "world",     "micro",
        "microbatch", "microbatches", "hidden", "heads",   "layers",    "tp",
        "pp",         "dp",           "cp",     "ep",      "zero",      "parallelism",
        "parallel",   "model",        "plan",   "dtype",   "precision", "framework",
        "seq",        "sequence",     "stages", "experts", "config",    "configuration",
        "strategy"};
    static const char *const beside[] = {"size",   "degree",    "number",  "num",    "no",
                                         "of",     "length",    "len",     "dim",    "count",
                                         "batch",  "attention", "id",      "name",   "data",
                                         "tensor", "pipeline",  "context", "expert", "stage"};
    static const char blanks[] = " \t_#-()./";
    bool any = false;
    for (const char *at = name + strspn(name, blanks); *at; at += strspn(at, blanks)) {
        size_t n = strcspn(at, blanks);
        bool key = activity_csv_is_among(at, n, what, sizeof what / sizeof *what);
        if (!key && !activity_csv_is_among(at, n, beside, sizeof beside / sizeof *beside))
            return false;
        any |= key;
        at += n;
    }
    return any;
}

/* What the columns of a header are; false: none says how long steps take. */
static bool activity_csv_read_header(const char *text, struct reader_state *state)
{
    char line[1024], *cell[READER_COLUMNS];
    bool timed = false;
    size_t length = strlen(text);
    if (length >= sizeof line || !strpbrk(text, "_(sS"))
        return false;
    for (size_t i = 0; i <= length; i++)
        line[i] = (char)tolower((unsigned char)text[i]);
    state->columns = cells_split(line, cells_separator(text), cell, READER_COLUMNS);
    state->separator = cells_separator(text);
    for (size_t i = 0; i < state->columns; i++) {
        const char *name = cell[i] + (*cell[i] == '#') + (strncmp(cell[i], "# ", 2) == 0);
        state->column[i] = -1;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (strcmp(known[k].name, name) == 0)
                state->column[i] = (int)known[k].column;
        if (is_time(name, &state->scale[i]))
            state->column[i] = COLUMN_TIME;
        if (state->column[i] < 0 && is_configuration(name))
            state->column[i] = COLUMN_CONFIGURATION;
        timed |= state->column[i] == COLUMN_TIME || state->column[i] == COLUMN_SAMPLES_RATE ||
                 state->column[i] == COLUMN_TOKENS_RATE;
    }
    return timed;
}

static bool activity_csv_recognises_line(const char *text)
{
    struct reader_state state;
    return activity_csv_read_header(text, &state);
}

/* The rows of a run are its steps: none of the columns that say what ran may change. */
static enum status check_configuration(struct reader_state *state, char **cell)
{
    char names[160] = "";
    const char *was = NULL, *is = NULL;
    size_t length = 0;
    for (size_t i = 0; i < state->columns; i++) {
        if (state->column[i] != COLUMN_CONFIGURATION)
            continue;
        if (strcmp(state->value[i], cell[i]) == 0)
            continue;
        is = is ? is : cell[i];
        was = was ? was : state->value[i];
        if (length + strlen(state->name[i]) + 3 < sizeof names)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s'%s'",
                                       length > 0 ? ", " : "", state->name[i]);
    }
    if (!is)
        return STATUS_OK;
    return error_set(STATUS_PARSE,
                     "%s:%zu: configuration differs from line %zu (%s: got %.40s, was %.40s), "
                     "expected the iterations of one run. Put each configuration into its own file",
                     state->path, state->line, state->row_line, names, is, was);
}

/* Of a step that several ranks have a line of, the longest counts. */
static enum status activity_csv_add(struct measured_run *run, const struct run_line *l, bool ranked)
{
    struct run_line *last = run->lines > 0 ? &run->line[run->lines - 1] : NULL;
    if (!ranked || !last || last->number != l->number)
        return run_add_line(run, l);
    last->seconds = l->seconds > last->seconds ? l->seconds : last->seconds;
    return STATUS_OK;
}

static enum status activity_csv_take_header(char *text, struct reader_state *state)
{
    if (!activity_csv_read_header(text, state))
        return error_set(STATUS_PARSE, "%s:%zu: header line is missing", state->path, state->line);
    PASS(text_copy(text, &state->header));
    cells_split(state->header, state->separator, state->name, READER_COLUMNS);
    return STATUS_OK;
}

static enum status activity_csv_take(char *text, struct reader_state *state,
                                     struct measured_run *run)
{
    char *cell[READER_COLUMNS];
    struct run_line l = {.number = (int64_t)run->lines + 1};
    bool ranked = false;
    if (!text || (state->columns > 0 && *text == '#'))
        return STATUS_OK;
    if (state->columns == 0)
        return activity_csv_take_header(text, state);
    PASS(run_count(run, state->path));
    if (!state->row) {
        PASS(text_copy(text, &state->row));
        state->row_line = state->line;
        for (size_t k = cells_split(state->row, state->separator, state->value, READER_COLUMNS);
             k < state->columns; k++)
            state->value[k] = "";
    }
    size_t n = cells_split(text, state->separator, cell, READER_COLUMNS);
    if (n != state->columns)
        return error_set(STATUS_PARSE, "%s:%zu: got %zu cells, expected %zu as in the header",
                         state->path, state->line, n, state->columns);
    PASS(check_configuration(state, cell));
    for (size_t i = 0; i < n; i++) {
        double v = 0;
        if (state->column[i] < 0 || state->column[i] == COLUMN_CONFIGURATION || !*cell[i])
            continue;
        if (!text_real(cell[i], &v) || v < 0 || v > 1e15)
            return error_set(STATUS_PARSE, "%s:%zu: got '%.40s', expected a number from 0 to 1e15",
                             state->path, state->line, cell[i]);
        switch ((enum column)state->column[i]) {
        case COLUMN_STEP:
            l.number = (int64_t)v;
            break;
        case COLUMN_RANK:
            ranked = true;
            break;
        case COLUMN_TIME:
            l.seconds = v * state->scale[i];
            break;
        case COLUMN_SAMPLES_RATE:
            l.samples_per_s = v;
            break;
        case COLUMN_TOKENS_RATE:
            l.tokens_per_s_and_gpu = v;
            break;
        case COLUMN_SAMPLES:
            l.samples = v;
            break;
        case COLUMN_CONFIGURATION:
            break;
        }
    }
    return activity_csv_add(run, &l, ranked);
}

const struct reader reader_csv = {
    .name = "csv",
    .summary = "table of steps: columns step, rank, step_time (ms), samples_per_s, batch, ...",
    .recognises_line = activity_csv_recognises_line,
    .take = activity_csv_take,
};
