/* What the OSU micro-benchmarks print: "# OSU MPI Allreduce Latency Test", a line of units, sizes
 * and times in us or rates in MB/s, perhaps a column of validation. A file may hold many runs: the
 * first table of each kind counts. Members come from the launcher's line before the table (srun -N2
 * -n8, jsrun -n 128 -a 1 -r 1), messages having two. Sizes of all-gather and all-to-all are a
 * member's; a curve's are of all members. */
#include "topologies/measured.h"

#include <ctype.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"

enum { LINE = 1024, CELLS = 64 };

static const struct {
    const char *title;
    enum fabric_kind kind;
    bool rate, of_member;
} tests[] = {
    {"Allreduce Latency", FABRIC_ALLREDUCE, false, false},
    {"Allgather Latency", FABRIC_ALLGATHER, false, true},
    {"Reduce_scatter Latency", FABRIC_REDUCESCATTER, false, false},
    {"All-to-All Personalized Exchange Latency", FABRIC_ALLTOALL, false, true},
    {"Broadcast Latency", FABRIC_BROADCAST, false, false},
    {"Latency Test", FABRIC_SEND, false, false},
    {"Bandwidth Test", FABRIC_SEND, true, false},
};
enum { TESTS = sizeof tests / sizeof *tests };

struct osu_reader {
    const char *path;
    size_t line;
    const struct measured_hint *hint;
    uint64_t nodes, tasks, per_node; /* of the launcher's last line; 0: not said */
    int test;                        /* under way; -1: none, or none that counts */
    struct fabric_curve curve;
    struct measured out;
};

/* "-N2", "-N 2", "--ntasks-per-node=4": the number behind an option, 0: another word. */
static uint64_t osu_number_of(char **cell, size_t n, size_t i, const char *option)
{
    size_t k = strlen(option);
    uint64_t value;
    if (strncmp(cell[i], option, k) != 0)
        return 0;
    const char *text = cell[i][k] == '=' ? cell[i] + k + 1 : cell[i] + k;
    if (!*text && i + 1 < n)
        text = cell[i + 1];
    return text_count(text, FABRIC_MEMBERS, &value) ? value : 0;
}

static void read_launcher(struct osu_reader *r, char **cell, size_t n)
{
    bool jsrun = false, srun = false;
    uint64_t sets = 0, tasks = 1, per_host = 0;
    for (size_t i = 0; i < n; i++) {
        jsrun |= !strcmp(cell[i], "jsrun");
        srun |= !strcmp(cell[i], "srun");
    }
    if (!jsrun && !srun)
        return;
    r->nodes = r->tasks = r->per_node = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t nodes = osu_number_of(cell, n, i, "-N"), count = osu_number_of(cell, n, i, "-n");
        uint64_t each = osu_number_of(cell, n, i, "--ntasks-per-node");
        uint64_t a = osu_number_of(cell, n, i, "-a"), host = osu_number_of(cell, n, i, "-r");
        r->nodes = nodes ? nodes : r->nodes;
        sets = count ? count : sets;
        r->per_node = each ? each : r->per_node;
        tasks = a ? a : tasks;
        per_host = host ? host : per_host;
    }
    r->tasks = jsrun ? sets * tasks : sets;
    r->per_node = jsrun ? per_host * tasks : r->per_node;
    if (!r->tasks)
        r->tasks = r->per_node ? r->nodes * r->per_node : r->nodes;
    if (!r->per_node && r->nodes && r->tasks % r->nodes == 0)
        r->per_node = r->tasks / r->nodes;
}

static void osu_begin(struct osu_reader *r, const char *title)
{
    r->test = -1;
    for (int k = 0; k < TESTS && r->test < 0; k++)
        if (strstr(title, tests[k].title) && !strstr(title, "Multi") && !strstr(title, "Bi-"))
            r->test = k;
    r->curve.n = 0;
    if (r->test < 0)
        r->out.tables++;
}

/* The table under way becomes a curve. */
static enum status osu_end(struct osu_reader *r)
{
    struct fabric_curve *c = &r->curve, copy = {0};
    enum status st = STATUS_OK;
    if (r->test < 0 || c->n == 0)
        return STATUS_OK;
    const struct measured_hint *h = r->hint;
    c->kind = tests[r->test].kind;
    c->members = h->members ? h->members : c->kind == FABRIC_SEND ? 2 : (uint32_t)r->tasks;
    c->per_node = h->members ? h->per_node : (uint32_t)r->per_node;
    r->test = -1;
    if (h->has_kind && h->kind != c->kind) {
        r->out.tables++;
        return STATUS_OK;
    }
    for (size_t k = 0; k < r->out.n; k++)
        if (r->out.curve[k].kind == c->kind) {
            r->out.tables++;
            return STATUS_OK;
        }
    if (c->members < 2 || c->per_node == 0 || c->members % c->per_node != 0)
        return error_set(STATUS_PARSE,
                         "%s:%zu: the file does not say how many ranks and nodes ran %s; give "
                         "KIND:NODESxGPUS=FILE such as %s:2x1=FILE (2 nodes of 1 rank each)",
                         r->path, r->line, fabric_kind_name[c->kind], fabric_kind_name[c->kind]);
    double factor = 1;
    for (int k = 0; k < TESTS; k++)
        if (tests[k].kind == c->kind && tests[k].of_member)
            factor = c->members;
    copy = (struct fabric_curve){
        .kind = c->kind, .members = c->members, .per_node = c->per_node, .n = c->n};
    TRY(ARRAY_COPY(copy.bytes, c->bytes, c->n));
    TRY(ARRAY_COPY(copy.seconds, c->seconds, c->n));
    TRY(text_copy("*", &copy.tier));
    for (size_t i = 0; i < copy.n; i++)
        copy.bytes[i] *= factor;
    TRY(ARRAY_ROOM(r->out.curve, r->out.n));
    MOVE(&r->out.curve[r->out.n++], copy);
out:
    fabric_curve_free(&copy);
    return st;
}

static enum status osu_read_size(struct osu_reader *r, char **cell, size_t n)
{
    double bytes, value;
    struct fabric_curve *c = &r->curve;
    if (n < 2 || !text_real(cell[0], &bytes) || !text_real(cell[1], &value) || bytes < 0 ||
        bytes > 1e18 || value < 0 || value > 1e12)
        return error_set(STATUS_PARSE, "%s:%zu: expected a size and a time or rate", r->path,
                         r->line);
    if (bytes <= 0 || value <= 0) {
        r->out.empty += bytes <= 0;
        r->out.timeless += bytes > 0;
        return STATUS_OK;
    }
    if (c->n > 0 && bytes <= c->bytes[c->n - 1]) {
        r->out.repeated++;
        return STATUS_OK;
    }
    if (c->n == FABRIC_POINTS)
        return error_set(STATUS_PARSE, "%s:%zu: more than %d message sizes", r->path, r->line,
                         FABRIC_POINTS);
    c->bytes[c->n] = bytes;
    c->seconds[c->n++] = tests[r->test].rate ? bytes / (value * 1e6) : value * 1e-6;
    return STATUS_OK;
}

static enum status osu_read_lines(struct osu_reader *r, const char *text)
{
    char line[LINE], *cell[CELLS];
    while (*text) {
        r->line++;
        text = text_line(text, line, sizeof line);
        if (strstr(line, "# OSU ")) {
            PASS(osu_end(r));
            osu_begin(r, line);
            continue;
        }
        size_t n = text_split(line, " \t\r", cell, CELLS);
        if (n == 1 && !strcmp(cell[0], "..."))
            r->out.elided++;
        else if (n > 0 && *cell[0] != '#' && r->test >= 0 && isdigit((unsigned char)*cell[0]))
            PASS(osu_read_size(r, cell, n));
        else if (n > 0 && *cell[0] != '#') {
            PASS(osu_end(r));
            read_launcher(r, cell, n);
        }
    }
    return osu_end(r);
}

static bool osu_recognises(const char *text)
{
    return strstr(text, "# OSU ");
}

static enum status osu_parse(const char *path, const char *text, const struct measured_hint *hint,
                             struct measured *out)
{
    enum status st;
    struct osu_reader r = {.path = path, .hint = hint, .test = -1};
    TRY(ARRAY_NEW(r.curve.bytes, FABRIC_POINTS));
    TRY(ARRAY_NEW(r.curve.seconds, FABRIC_POINTS));
    TRY(osu_read_lines(&r, text));
    if (r.out.n == 0)
        FAIL(STATUS_PARSE,
             "%s: no collective or point-to-point results, expected the output of an OSU benchmark",
             path);
    MOVE(out, r.out);
out:
    fabric_curve_free(&r.curve);
    measured_free(&r.out);
    return st;
}

const struct measured_format measured_osu = {
    .name = "osu",
    .summary = "tables of OSU's latency, bandwidth and collective benchmarks",
    .recognises = osu_recognises,
    .parse = osu_parse,
};
