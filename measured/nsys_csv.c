/* What `nsys stats --report cuda_gpu_trace --format csv` prints: when each kernel and copy ran.
 * Lines before the header are nsys's own prose. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measured/cells.h"
#include "measured/reader.h"

enum { DEVICES = 1024 };
enum column { START, DURATION, LAUNCH, STREAM, DEVICE, BYTES, NAME, COLUMNS };
static const char *const column_names[COLUMNS] = {"Start (", "Duration (", "CorrId", "Strm",
                                                  "Device",  "Bytes (",    "Name"};

static bool nsys_csv_recognises_line(const char *text)
{
    return strncmp(text, "Start (", 7) == 0 || strncmp(text, "Time (%),Total Time (", 21) == 0;
}

/* Nanoseconds, or bytes, of a column's unit: "Start (ns)", "Bytes (MB)". */
static double nsys_csv_unit_of(const char *name)
{
    static const struct {
        const char *name;
        double bytes;
    } sizes[] = {{"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}};
    const char *unit = strchr(name, '(') + 1;
    size_t length = strcspn(unit, ")");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strlen(sizes[i].name) == length && strncmp(sizes[i].name, unit, length) == 0)
            return sizes[i].bytes;
    return cells_unit(unit, length) * 1e9;
}

static enum status nsys_csv_take_header(char *text, struct reader_state *state)
{
    char *cell[READER_COLUMNS];
    bool seen[COLUMNS] = {false};
    if (strncmp(text, "Time (%)", 8) == 0)
        return error_set(STATUS_PARSE,
                         "%s:%zu: summary of kernels, without their start times. Try nsys stats "
                         "--report cuda_gpu_trace",
                         state->path, state->line);
    state->columns = cells_split(text, ',', cell, READER_COLUMNS);
    for (size_t i = 0; i < state->columns; i++) {
        state->column[i] = -1;
        for (int k = 0; k < COLUMNS; k++)
            if (strncmp(cell[i], column_names[k], strlen(column_names[k])) == 0) {
                state->column[i] = k;
                seen[k] = true;
            }
        if (state->column[i] >= 0 && strchr(cell[i], '('))
            state->scale[i] = nsys_csv_unit_of(cell[i]);
        if (state->column[i] >= 0 && strchr(cell[i], '(') && !(state->scale[i] > 0))
            return error_set(STATUS_PARSE, "%s:%zu: unknown unit '%.40s'", state->path, state->line,
                             cell[i]);
    }
    if (!seen[START] || !seen[DURATION] || !seen[NAME])
        return error_set(STATUS_PARSE, "%s:%zu: columns Start, Duration and Name are missing",
                         state->path, state->line);
    return STATUS_OK;
}

/* The number in the last parentheses, "NVIDIA H100 80GB HBM3 (1)". */
static int64_t nsys_csv_device_of(const char *text)
{
    const char *open = strrchr(text, '(');
    return open ? strtoll(open + 1, NULL, 10) : 0;
}

static enum status nsys_csv_add(struct measured_run *run, struct reader_state *state,
                                int64_t device, const char *name, struct span *s)
{
    uint32_t known;
    bool fresh;
    size_t r;
    if (*name == '[') {
        s->what = SPAN_COPY;
        s->kind = (uint8_t)span_copy_of(name);
    } else if (span_communicates(name)) {
        s->what = SPAN_COMMUNICATION;
        s->kind = (uint8_t)span_kind_of(name);
        s->bytes = 0;
    }
    PASS(intern(&state->devices, &device, sizeof device, &known, &fresh));
    if (known == DEVICES)
        return error_set(STATUS_PARSE, "%s:%zu: more than %d GPUs", state->path, state->line,
                         DEVICES);
    if (fresh)
        PASS(run_add_rank(run, state->path, device, device, &r));
    return run_add_span(run, state->path, state->first + known, name, s);
}

static enum status nsys_csv_take(char *text, struct reader_state *state, struct measured_run *run)
{
    char *cell[READER_COLUMNS];
    const char *name = "";
    int64_t duration_ns = 0, device = 0;
    struct span s = {.launch = -1, .op = RUN_NO_OP, .purpose = OP_PURPOSES};
    if (!text)
        return STATUS_OK;
    if (state->columns == 0)
        return nsys_csv_take_header(text, state);
    PASS(run_count(run, state->path));
    size_t n = cells_split(text, ',', cell, READER_COLUMNS);
    if (n != state->columns)
        return error_set(STATUS_PARSE, "%s:%zu: got %zu cells, expected %zu as in the header",
                         state->path, state->line, n, state->columns);
    for (size_t i = 0; i < n; i++) {
        int c = state->column[i];
        int64_t *ns = c == START ? &s.start_ns : c == DURATION ? &duration_ns : NULL;
        if (ns &&
            (!reader_ns(cell[i], (int64_t)state->scale[i], ns) || *ns < 0 || *ns > INT64_MAX / 4))
            return error_set(STATUS_PARSE, "%s:%zu: got '%.40s', expected a time", state->path,
                             state->line, cell[i]);
        if (c == LAUNCH)
            s.launch = strtoll(cell[i], NULL, 10);
        else if (c == STREAM)
            s.stream = (uint32_t)strtoul(cell[i], NULL, 10);
        else if (c == BYTES && strtod(cell[i], NULL) >= 0 && strtod(cell[i], NULL) < 1e12)
            s.bytes = (int64_t)(strtod(cell[i], NULL) * state->scale[i]);
        else if (c == DEVICE)
            device = nsys_csv_device_of(cell[i]);
        else if (c == NAME)
            name = cell[i];
    }
    s.end_ns = s.start_ns + duration_ns;
    return nsys_csv_add(run, state, device, name, &s);
}

const struct reader reader_nsys_csv = {
    .name = "nsys_csv",
    .summary = "nsys stats --report cuda_gpu_trace --format csv",
    .recognises_line = nsys_csv_recognises_line,
    .take = nsys_csv_take,
};
