/* What nccl-tests (all_reduce_perf, ...) prints: lines of size, count, type, redop, root and times,
 * older versions without redop or root. Members are the lines "#  Rank  0 ... on HOST device",
 * their nodes the distinct hosts. The kind is that of "# Collective test starting: all_reduce_perf"
 * where a newer version says it, else what busbw / algbw tells. Out-of-place times count. */
#include "topologies/measured.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/intern.h"
#include "core/base/text.h"

enum { LINE = 1024, CELLS = 24, HOSTS = 4096 };

/* A table under way. */
struct nccl_tests_table {
    const char *path;
    size_t line;
    const struct measured_hint *hint;
    bool named;
    enum fabric_kind kind;
    uint32_t ranks;
    struct interner hosts;
    struct fabric_curve curve;
    double ratio;            /* busbw / algbw of the largest size */
    double algbw, low, high; /* of the fastest row: between what its ratio is, as it is printed, */
    size_t ratio_line;       /* and where it stands */
    size_t empty, timeless, repeated, elided; /* rows that give no point */
};

/* "#  Rank  0 Group  0 Pid 71 on node7 device  0 [0x19] NVIDIA H100" */
static enum status nccl_tests_read_rank(struct nccl_tests_table *t, char **cell, size_t n)
{
    const char *host = NULL;
    uint32_t number;
    for (size_t i = 0; i + 2 < n && !host; i++)
        host = !strcmp(cell[i], "on") && !strcmp(cell[i + 2], "device") ? cell[i + 1] : NULL;
    if (!host)
        return STATUS_OK;
    t->ranks++;
    if (t->hosts.n == HOSTS && !interned(&t->hosts, host, strlen(host), &number))
        return error_set(STATUS_PARSE, "%s:%zu: more than %d hosts", t->path, t->line, HOSTS);
    return intern(&t->hosts, host, strlen(host), &number, NULL);
}

/* "all_reduce_perf" */
static bool kind_of_test(const char *name, enum fabric_kind *out)
{
    static const char *const tests[FABRIC_KINDS] = {"all_reduce", "all_gather", "reduce_scatter",
                                                    "alltoall",   "broadcast",  "sendrecv"};
    for (size_t k = 0; k < FABRIC_KINDS; k++)
        if (!strncmp(name, tests[k], strlen(tests[k]))) {
            *out = (enum fabric_kind)k;
            return true;
        }
    return false;
}

static enum status read_comment(struct nccl_tests_table *t, char **cell, size_t n)
{
    if (n > 2 && !strcmp(cell[1], "size") && t->curve.n > 0)
        return error_set(STATUS_PARSE, "%s:%zu: second table, expected one per file", t->path,
                         t->line);
    if (n > 2 && !strcmp(cell[1], "Rank"))
        return nccl_tests_read_rank(t, cell, n);
    for (size_t i = 0; i + 1 < n; i++)
        if (!strcmp(cell[i], "starting:") || !strcmp(cell[i], "concluded:"))
            t->named = kind_of_test(cell[i + 1], &t->kind);
    return STATUS_OK;
}

/* Where the time stands: after words and perhaps a root, before algbw = bytes / time, by which it
 * is told: newer versions print long times without a point, as roots are. 0: nowhere. */
static size_t find_time(char **cell, size_t n, double bytes)
{
    for (size_t at = 3; at < 6 && at + 2 < n; at++) {
        double time, algbw, busbw;
        if (!text_real(cell[at], &time) || !text_real(cell[at + 1], &algbw) ||
            !text_real(cell[at + 2], &busbw) || time < 0 || !strchr(cell[at + 1], '.'))
            continue;
        double exact = time > 0 ? bytes / time * 1e-3 : 0;
        if (fabs(exact - algbw) <= 0.0051 + 0.02 * algbw)
            return at;
    }
    return 0;
}

/* Half a unit of the last digit: "26.21" is between 26.205 and 26.215. */
static double printed_to(const char *number)
{
    const char *point = strchr(number, '.');
    return 0.5 * pow(10, point ? -(double)strspn(point + 1, "0123456789") : 0);
}

/* size count type [redop] [root] time algbw busbw #wrong [time algbw busbw #wrong] */
static enum status nccl_tests_read_size(struct nccl_tests_table *t, char **cell, size_t n)
{
    double bytes = 0, seconds = 0, algbw = 0, busbw = 0;
    uint64_t wrong;
    struct fabric_curve *c = &t->curve;
    bool good = text_real(cell[0], &bytes) && bytes < 1e18;
    size_t at = good ? find_time(cell, n, bytes) : 0;
    if (at == 0 || !text_real(cell[at], &seconds) || !text_real(cell[at + 1], &algbw) ||
        !text_real(cell[at + 2], &busbw) || seconds > 1e12)
        return error_set(STATUS_PARSE,
                         "%s:%zu: expected the columns size, count, type, redop and root "
                         "(optional), time in us, algbw (size / time) and busbw",
                         t->path, t->line);
    /* behind busbw; a whole number, or "N/A", or in old versions a difference such as 4e-07 */
    if (at + 3 < n && text_count(cell[at + 3], UINT32_MAX, &wrong) && wrong > 0)
        return error_set(STATUS_PARSE,
                         "%s:%zu: #wrong is %s, expected 0: the run computed wrong results, so its "
                         "times are not used",
                         t->path, t->line, cell[at + 3]);
    if (bytes <= 0 || seconds <= 0) { /* sizes are rounded down to nothing, times to 0.00 us */
        t->empty += bytes <= 0;
        t->timeless += bytes > 0;
        return STATUS_OK;
    }
    if (c->n > 0 && bytes <= c->bytes[c->n - 1]) {
        t->repeated++;
        return STATUS_OK;
    }
    if (c->n == FABRIC_POINTS)
        return error_set(STATUS_PARSE, "%s:%zu: more than %d message sizes", t->path, t->line,
                         FABRIC_POINTS);
    c->bytes[c->n] = bytes;
    c->seconds[c->n++] = seconds * 1e-6;
    t->ratio = algbw > 0 ? busbw / algbw : t->ratio;
    double da = printed_to(cell[at + 1]), db = printed_to(cell[at + 2]);
    if (algbw > t->algbw && algbw > da) {
        t->algbw = algbw;
        t->low = (busbw - db) / (algbw + da) * (1 - 1e-6);
        t->high = (busbw + db) / (algbw - da) * (1 + 1e-6);
        t->ratio_line = t->line;
    }
    return STATUS_OK;
}

/* Launchers put the rank before each line: "[1,0]<stdout>:", "0: ", "node7: ". */
static char *unlabelled(char *line)
{
    char *at = line + strspn(line, " "), *colon = strchr(at, ':');
    if (*at == '[' && (colon = strstr(at, "<std")) && (colon = strchr(colon, ':')))
        return colon + 1;
    colon = strchr(at, ':');
    if (!colon || colon == at || strcspn(at, " \t") < (size_t)(colon - at))
        return line;
    const char *next = colon + 1 + strspn(colon + 1, " ");
    return *next == '#' || (isdigit((unsigned char)*next) && colon[1] == ' ') ? colon + 1 : line;
}

/* all-reduce alone has 2 (n - 1) / n; others need their names. With two members that is 1, as of
 * broadcasts. */
static bool guess_kind(const struct nccl_tests_table *t, double n, enum fabric_kind *out)
{
    bool sums = fabs(t->ratio - 2 * (n - 1) / n) < 0.02 * t->ratio;
    *out = FABRIC_ALLREDUCE;
    return sums && n > 2;
}

static enum status nccl_tests_finish(struct nccl_tests_table *t, struct measured *out)
{
    const struct measured_hint *h = t->hint;
    struct fabric_curve *c = &t->curve;
    c->members = h->members ? h->members : t->ranks;
    c->per_node = h->members                                     ? h->per_node
                  : t->hosts.n > 0 && t->ranks % t->hosts.n == 0 ? t->ranks / (uint32_t)t->hosts.n
                                                                 : 0;
    if (c->n == 0)
        return error_set(STATUS_PARSE,
                         "%s: no line with a size and times, expected the output of nccl-tests",
                         t->path);
    if (c->members < 2 || c->members > FABRIC_MEMBERS || c->per_node == 0 ||
        c->members % c->per_node != 0)
        return error_set(STATUS_PARSE,
                         "%s: the file does not list its ranks; give KIND:NODESxGPUS=FILE such as "
                         "all-reduce:2x8=FILE (2 nodes of 8 GPUs each)",
                         t->path);
    c->kind = h->has_kind ? h->kind : t->kind;
    if (!h->has_kind && !t->named && !guess_kind(t, c->members, &c->kind))
        return error_set(
            STATUS_PARSE,
            "%s: the file does not name its collective; give KIND=FILE such as all-gather=FILE",
            t->path);
    if (t->ratio_line > 0)
        PASS(measured_check_ratio(t->path, t->ratio_line, c, t->low, t->high));
    PASS(text_copy("*", &c->tier));
    PASS(ARRAY_ROOM(out->curve, out->n));
    MOVE(&out->curve[out->n++], t->curve);
    return STATUS_OK;
}

static enum status nccl_tests_read_lines(struct nccl_tests_table *t, const char *text)
{
    char line[LINE], *cell[CELLS];
    while (*text) {
        t->line++;
        text = text_line(text, line, sizeof line);
        size_t n = text_split(unlabelled(line), " \t\r", cell, CELLS);
        if (n > 0 && *cell[0] == '#')
            PASS(read_comment(t, cell, n));
        else if (n == 1 && !strcmp(cell[0], "..."))
            t->elided++;
        else if (n > 3 && strspn(cell[0], "0123456789") == strlen(cell[0]))
            PASS(nccl_tests_read_size(t, cell, n));
    }
    return STATUS_OK;
}

static bool nccl_tests_recognises(const char *text)
{
    (void)text;
    return true;
}

static enum status nccl_tests_parse(const char *path, const char *text,
                                    const struct measured_hint *hint, struct measured *out)
{
    enum status st;
    struct measured m = {0};
    struct nccl_tests_table t = {.path = path, .hint = hint};
    TRY(ARRAY_NEW(t.curve.bytes, FABRIC_POINTS));
    TRY(ARRAY_NEW(t.curve.seconds, FABRIC_POINTS));
    TRY(nccl_tests_read_lines(&t, text));
    TRY(nccl_tests_finish(&t, &m));
    m.empty = t.empty;
    m.timeless = t.timeless;
    m.repeated = t.repeated;
    m.elided = t.elided;
    MOVE(out, m);
out:
    measured_free(&m);
    fabric_curve_free(&t.curve);
    interner_free(&t.hosts);
    return st;
}

const struct measured_format measured_nccl_tests = {
    .name = "nccl-tests",
    .summary = "tables of all_reduce_perf and its siblings, of old and new versions",
    .recognises = nccl_tests_recognises,
    .parse = nccl_tests_parse,
};
