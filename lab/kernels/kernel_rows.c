/* Tables of measured kernels: columns found by their names, cells checked, rows made. */
#include "lab/kernels/kernel_rows.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/limit.h"
#include "core/base/text.h"
#include "core/cost/fabric.h"
#include "core/cost/kernel.h"
#include "topologies/catalogue.h"

/* ---- columns */

/* Rows, whose fit takes half a millisecond for each; MiB of their table. */
enum { MOST_ROWS = 65536, MOST_TABLE = 32 };

enum column {
    GPU,
    M,
    N,
    K,
    BATCH,
    HEADS,
    KV_HEADS,
    HEAD,
    WINDOW,
    DTYPE,
    OP,
    ROWS,
    WIDTH,
    COLLECTIVE,
    RANKS,
    NODES,
    PER_NODE,
    BYTES,
    TIME,
    BUSBW,
    COLUMNS
};

static const struct {
    const char *name;
    enum column column;
    double scale; /* of times: seconds in the unit */
} names[] = {
    {"gpu", GPU, 0},
    {"system", GPU, 0},
    {"accelerator", GPU, 0},
    {"M", M, 0},
    {"M_tokens", M, 0},
    {"N", N, 0},
    {"K", K, 0},
    {"B", BATCH, 0},
    {"batch", BATCH, 0},
    {"heads", HEADS, 0},
    {"kv_heads", KV_HEADS, 0},
    {"head_dim", HEAD, 0},
    {"window", WINDOW, 0},
    {"dtype", DTYPE, 0},
    {"op", OP, 0},
    {"rows", ROWS, 0},
    {"tokens", ROWS, 0},
    {"width", WIDTH, 0},
    {"collective", COLLECTIVE, 0},
    {"ranks", RANKS, 0},
    {"nodes", NODES, 0},
    {"ranks_per_node", PER_NODE, 0},
    {"bytes", BYTES, 0},
    {"seconds", TIME, 1},
    {"time_s", TIME, 1},
    {"time_us", TIME, 1e-6},
    {"time_ms", TIME, 1e-3},
    {"time_ms_median", TIME, 1e-3},
    {"latency_ms", TIME, 1e-3},
    {"t_median_ms", TIME, 1e-3},
    {"busbw_GBps", BUSBW, 0},
};

struct kernel_rows_reader {
    const char *path, *next;
    size_t line;
    enum data_type dtype;
    size_t untyped;     /* rows that had to take it */
    size_t at[COLUMNS]; /* + 1; 0: there is none */
    double scale;
    size_t cells;
    char cell[KERNEL_COLUMNS][KERNEL_CELL];
};

static enum status kernel_rows_error(const struct kernel_rows_reader *r, const char *what,
                                     const char *cell)
{
    return error_set(STATUS_PARSE, "%s:%zu: %s%s%.40s%s", r->path, r->line, what, *cell ? " '" : "",
                     cell, *cell ? "'" : "");
}

/* One cell, in quotes or not; `next` is left at the comma or the end of the line behind it. */
static enum status read_cell(struct kernel_rows_reader *r, char *out)
{
    size_t n = 0;
    bool quoted = *r->next == '"';
    r->next += quoted;
    while (*r->next && *r->next != '\n' && (quoted || *r->next != ',')) {
        if (quoted && *r->next == '"') {
            if (r->next[1] != '"')
                break;
            r->next++;
        }
        if (n + 1 == KERNEL_CELL)
            return kernel_rows_error(r, "a cell of more than 199 characters", "");
        if (*r->next != '\r')
            out[n++] = *r->next;
        r->next++;
    }
    out[n] = '\0';
    if (quoted && *r->next != '"')
        return kernel_rows_error(r, "a quote is not closed", "");
    r->next += quoted;
    r->next += *r->next == '\r';
    return *r->next == ',' || *r->next == '\n' || *r->next == '\0'
               ? STATUS_OK
               : kernel_rows_error(r, "characters after a closing quote", "");
}

/* A line of cells; 0 cells: an empty line. */
static enum status kernel_rows_read_line(struct kernel_rows_reader *r)
{
    r->line++;
    r->cells = 0;
    while (*r->next && *r->next != '\n') {
        if (r->cells == KERNEL_COLUMNS)
            return kernel_rows_error(r, "more than 64 columns", "");
        PASS(read_cell(r, r->cell[r->cells++]));
        if (*r->next == ',' && (r->next[1] == '\n' || !r->next[1]) && r->cells < KERNEL_COLUMNS)
            r->cell[r->cells++][0] = '\0'; /* the last one is empty */
        r->next += *r->next == ',';
    }
    r->next += *r->next == '\n';
    return STATUS_OK;
}

static enum status kernel_rows_read_names(struct kernel_rows_reader *r)
{
    PASS(kernel_rows_read_line(r));
    for (size_t k = 0; k < r->cells; k++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (!strcmp(r->cell[k], names[i].name) && !r->at[names[i].column]) {
                r->at[names[i].column] = k + 1;
                r->scale = names[i].column == TIME ? names[i].scale : r->scale;
            }
    return STATUS_OK;
}

static enum status kernel_rows_kind_of(const struct kernel_rows_reader *r, enum row_kind *out)
{
    const size_t *at = r->at;
    bool timed = at[GPU] && (at[TIME] || (at[BUSBW] && at[COLLECTIVE]));
    if (timed && at[M] && at[N] && at[K])
        *out = ROW_PRODUCT;
    else if (timed && at[ROWS] && at[HEADS] && at[HEAD])
        *out = ROW_ATTENTION;
    else if (timed && at[OP] && at[ROWS] && at[WIDTH])
        *out = ROW_PASS;
    else if (timed && at[COLLECTIVE] && at[RANKS] && at[BYTES] && (at[NODES] || at[PER_NODE]))
        *out = ROW_COLLECTIVE;
    else
        return kernel_rows_error(r,
                                 "expected the columns gpu, a time (time_ms, ...) and sizes: M, N, "
                                 "K (products); tokens, heads, head_dim (attention); op, rows, "
                                 "width (passes); or collective, ranks, nodes, bytes",
                                 "");
    return STATUS_OK;
}

/* ---- cells */

static const char *kernel_rows_text(const struct kernel_rows_reader *r, enum column c)
{
    return r->at[c] ? r->cell[r->at[c] - 1] : "";
}

static enum status kernel_rows_number(const struct kernel_rows_reader *r, enum column c,
                                      double least, double most, double *out)
{
    const char *text = kernel_rows_text(r, c);
    char what[80];
    if (text_real(text, out) && *out >= least && *out <= most)
        return STATUS_OK;
    snprintf(what, sizeof what, "expected a number from %g to %g, got", least, most);
    return kernel_rows_error(r, what, *text ? text : "nothing");
}

static enum status dtype_of(struct kernel_rows_reader *r, enum data_type *out)
{
    const char *text = kernel_rows_text(r, DTYPE);
    *out = r->dtype;
    r->untyped += !*text;
    if (!*text)
        return STATUS_OK;
    for (size_t k = 1; k < DATA_TYPES; k++)
        if (!strcmp(data_type_names[k], text)) {
            *out = (enum data_type)k;
            return STATUS_OK;
        }
    return kernel_rows_error(r, "unknown data type", text);
}

/* ---- rows */

static enum status kernel_rows_product(struct kernel_rows_reader *r, struct kernel_row *row)
{
    struct kernel *k = &row->kernel;
    *k = (struct kernel){.kind = KERNEL_PRODUCT, .launches = 1, .batch = 1};
    PASS(dtype_of(r, &k->dtype));
    PASS(kernel_rows_number(r, M, 1, 1e12, &k->m));
    PASS(kernel_rows_number(r, N, 1, 1e12, &k->n));
    PASS(kernel_rows_number(r, K, 1, 1e12, &k->k));
    if (r->at[BATCH])
        PASS(kernel_rows_number(r, BATCH, 1, 1e12, &k->batch));
    row->shape = (uint64_t)k->n * 1000003 ^ (uint64_t)k->k;
    return STATUS_OK;
}

/* A number that a table may lack. */
static enum status kernel_rows_optional(const struct kernel_rows_reader *r, enum column c,
                                        double otherwise, double *out)
{
    *out = otherwise;
    return r->at[c] ? kernel_rows_number(r, c, 0, 1e12, out) : STATUS_OK;
}

/* Causal: token i sees i + 1 of them, or as many as the window has. */
static enum status kernel_rows_attention(struct kernel_rows_reader *r, struct kernel_row *row)
{
    struct kernel *k = &row->kernel;
    double heads, kv, window;
    *k = (struct kernel){.kind = KERNEL_ATTENTION, .launches = 1, .flash = FLASH_VENDOR};
    PASS(dtype_of(r, &k->dtype));
    PASS(kernel_rows_optional(r, BATCH, 1, &k->batch));
    PASS(kernel_rows_number(r, ROWS, 1, 1e12, &k->tokens));
    PASS(kernel_rows_number(r, HEADS, 1, 1e12, &heads));
    PASS(kernel_rows_optional(r, KV_HEADS, heads, &kv));
    PASS(kernel_rows_number(r, HEAD, 1, 1e12, &k->k));
    PASS(kernel_rows_optional(r, WINDOW, 0, &window));
    double seen = window > 0 ? fmin(window, k->tokens) : k->tokens;
    k->flop = 4 * k->batch * heads * k->k * seen * (k->tokens - seen / 2);
    k->bytes = 2 * 2 * k->batch * k->tokens * k->k * (heads + kv);
    row->shape = (uint64_t)heads * 1000003 ^ (uint64_t)k->k * 1009 ^ (uint64_t)kv;
    return STATUS_OK;
}

/* Numbers read and written per number of a row: binary ops of two tensors and additions read two;
 * positions and gates as the tables count them. */
static double kernel_rows_moved(const char *op)
{
    static const char *const three[] = {"add", "mul", "div", "pow"};
    for (size_t k = 0; k < sizeof three / sizeof *three; k++)
        if (!strcmp(op, three[k]))
            return 3;
    return 2;
}

static enum status kernel_rows_read_pass(struct kernel_rows_reader *r, struct kernel_row *row)
{
    struct kernel *k = &row->kernel;
    double rows, width;
    *k = (struct kernel){.kind = KERNEL_PASS, .launches = 1};
    PASS(dtype_of(r, &k->dtype));
    PASS(kernel_rows_number(r, ROWS, 1, 1e12, &rows));
    PASS(kernel_rows_number(r, WIDTH, 1, 1e12, &width));
    double bytes = k->dtype == DATA_ANY ? 2 : (double)data_type_bytes(k->dtype);
    k->bytes = kernel_rows_moved(kernel_rows_text(r, OP)) * rows * width * bytes;
    row->shape = (uint64_t)width;
    for (const char *at = kernel_rows_text(r, OP); *at; at++)
        row->shape = row->shape * 31 + (unsigned char)*at;
    return STATUS_OK;
}

/* "all_reduce", "all-reduce". */
static bool kernel_rows_collective_of(const char *text, enum fabric_kind *out)
{
    for (size_t k = 0; k < FABRIC_KINDS; k++) {
        const char *name = fabric_kind_name[k];
        size_t i = 0;
        while (name[i] && (text[i] == name[i] || (text[i] == '_' && name[i] == '-')))
            i++;
        if (!name[i] && (!text[i] || (k == FABRIC_SEND && !strcmp(text, "send_recv")))) {
            *out = (enum fabric_kind)k;
            return true;
        }
    }
    return false;
}

static enum status kernel_rows_collective(const struct kernel_rows_reader *r, const struct gpu *gpu,
                                          struct kernel_row *row, bool *known)
{
    double ranks, per_node, nodes;
    const char *system = kernel_rows_text(r, GPU);
    PASS(kernel_rows_number(r, RANKS, 2, FABRIC_MEMBERS, &ranks));
    PASS(kernel_rows_number(r, BYTES, 1, 1e18, &row->bytes));
    if (r->at[NODES]) {
        PASS(kernel_rows_number(r, NODES, 1, ranks, &nodes));
        per_node = floor(ranks / nodes);
    } else {
        PASS(kernel_rows_number(r, PER_NODE, 1, ranks, &per_node));
    }
    row->where =
        (struct fabric_where){.members = (uint32_t)ranks,
                              .per_node = (uint32_t)per_node,
                              .link_Bps = gpu->nvlink_Bps,
                              .nic_Bps = gpu->nic_Bps,
                              .switched = strstr(system, "NVLS") && !strstr(system, "NVLS off")};
    *known = kernel_rows_collective_of(kernel_rows_text(r, COLLECTIVE), &row->collective);
    row->shape = (uint64_t)row->where.members * 4096 + row->where.per_node * 16 + row->collective;
    return STATUS_OK;
}

static double bus_factor(const struct kernel_row *row)
{
    double n = row->where.members;
    return row->collective == FABRIC_ALLREDUCE                                     ? 2 * (n - 1) / n
           : row->collective == FABRIC_BROADCAST || row->collective == FABRIC_SEND ? 1
                                                                                   : (n - 1) / n;
}

/* A row; *known false: it is left out. */
static enum status kernel_rows_read_one(struct kernel_rows_reader *r, enum row_kind kind,
                                        struct kernel_row *row, bool *known)
{
    const struct gpu *gpu = gpu_named(kernel_rows_text(r, GPU));
    double busbw = 0;
    *known = gpu != NULL;
    if (!gpu)
        return STATUS_OK;
    *row = (struct kernel_row){.gpu = (uint32_t)(gpu - gpus)};
    if (kind == ROW_PRODUCT)
        PASS(kernel_rows_product(r, row));
    else if (kind == ROW_ATTENTION)
        PASS(kernel_rows_attention(r, row));
    else if (kind == ROW_PASS)
        PASS(kernel_rows_read_pass(r, row));
    else
        PASS(kernel_rows_collective(r, gpu, row, known));
    if (r->at[TIME]) {
        PASS(kernel_rows_number(r, TIME, 0, 1e12, &row->seconds));
        row->seconds *= r->scale;
    } else {
        PASS(kernel_rows_number(r, BUSBW, 0, 1e9, &busbw));
        row->seconds = busbw > 0 ? row->bytes * bus_factor(row) / (busbw * 1e9) : 0;
    }
    *known = *known && row->seconds > 1e-12;
    return STATUS_OK;
}

static enum status kernel_rows_read_table(struct kernel_rows_reader *r, struct kernel_rows *out)
{
    PASS(kernel_rows_read_names(r));
    PASS(kernel_rows_kind_of(r, &out->kind));
    size_t columns = r->cells;
    char more[LIMIT_MORE];
    while (*r->next) {
        struct kernel_row row;
        bool known;
        PASS(kernel_rows_read_line(r));
        if (r->cells == 0)
            continue;
        if (r->cells != columns)
            return error_set(STATUS_PARSE, "%s:%zu: got %zu cells, expected %zu as in the header",
                             r->path, r->line, r->cells, columns);
        PASS(kernel_rows_read_one(r, out->kind, &row, &known));
        if (!known) {
            out->unknown++;
            continue;
        }
        if ((double)out->n >= limit_size(MOST_ROWS))
            return error_set(STATUS_INVALID, "%s: more than %.0f rows%s", r->path,
                             limit_size(MOST_ROWS), limit_more(LIMIT_size, more));
        PASS(ARRAY_ROOM(out->row, out->n));
        out->row[out->n++] = row;
    }
    return STATUS_OK;
}

enum status kernel_rows_parse(const char *path, const char *text, enum data_type dtype,
                              struct kernel_rows *out)
{
    enum status st;
    struct kernel_rows rows = {0};
    struct kernel_rows_reader *r = NULL;
    TRY(ARRAY_NEW(r, 1));
    r->path = path;
    r->next = text;
    r->dtype = dtype;
    TRY(kernel_rows_read_table(r, &rows));
    rows.untyped = r->untyped;
    MOVE(out, rows);
out:
    kernel_rows_free(&rows);
    free(r);
    return st;
}

enum status kernel_rows_read(const char *path, enum data_type dtype, struct kernel_rows *out)
{
    enum status st;
    char *text = NULL;
    size_t length;
    TRY(file_read_most(path, MOST_TABLE, &text, &length));
    TRY(kernel_rows_parse(path, text, dtype, out));
out:
    free(text);
    return st;
}

void kernel_rows_free(struct kernel_rows *r)
{
    free(r->row);
    *r = (struct kernel_rows){0};
}
