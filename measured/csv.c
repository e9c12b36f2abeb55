/* Tables of steps: a header, then a line for each step, or for each step and rank. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "measured/cells.h"
#include "measured/reader.h"

enum column {
    COLUMN_STEP,
    COLUMN_RANK,
    COLUMN_TIME,
    COLUMN_SAMPLES_RATE,
    COLUMN_TOKENS_RATE,
    COLUMN_SAMPLES
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

/* "iteration_s", "step_time (ms)", "elapsed_us", "seconds": a time, and how many seconds its unit has. */
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

/* What the columns of a header are; false: none says how long steps take. */
static bool read_header(const char *text, struct reader_state *state)
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
        timed |= state->column[i] == COLUMN_TIME || state->column[i] == COLUMN_SAMPLES_RATE ||
                 state->column[i] == COLUMN_TOKENS_RATE;
    }
    return timed;
}

static bool recognises_line(const char *text)
{
    struct reader_state state;
    return read_header(text, &state);
}

/* Of a step that several ranks have a line of, the longest counts. */
static enum status add(struct measured_run *run, const struct run_line *l, bool ranked)
{
    struct run_line *last = run->lines > 0 ? &run->line[run->lines - 1] : NULL;
    if (!ranked || !last || last->number != l->number)
        return run_add_line(run, l);
    last->seconds = l->seconds > last->seconds ? l->seconds : last->seconds;
    return STATUS_OK;
}

static enum status take(char *text, struct reader_state *state, struct measured_run *run)
{
    char *cell[READER_COLUMNS];
    struct run_line l = {.number = (int64_t)run->lines + 1};
    bool ranked = false;
    if (!text || (state->columns > 0 && *text == '#'))
        return STATUS_OK;
    if (state->columns == 0)
        return read_header(text, state)
                   ? STATUS_OK
                   : error_set(STATUS_PARSE, "%s:%zu: no header", state->path, state->line);
    PASS(run_count(run, state->path));
    size_t n = cells_split(text, state->separator, cell, READER_COLUMNS);
    if (n != state->columns)
        return error_set(STATUS_PARSE, "%s:%zu: %zu cells, and the header has %zu", state->path,
                         state->line, n, state->columns);
    for (size_t i = 0; i < n; i++) {
        double v = 0;
        if (state->column[i] < 0 || !*cell[i])
            continue;
        if (!text_real(cell[i], &v) || v < 0 || v > 1e15)
            return error_set(STATUS_PARSE, "%s:%zu: '%.40s' is no number of 0 to 1e15", state->path,
                             state->line, cell[i]);
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
        }
    }
    return add(run, &l, ranked);
}

const struct reader reader_csv = {
    .name = "csv",
    .summary = "table of steps: columns step, rank, step_time (ms), samples_per_s, batch, ...",
    .recognises_line = recognises_line,
    .take = take,
};
