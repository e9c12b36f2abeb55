/* Tables as CSV with a header that names size(B) and time(us) or time(ns), as vTrain's. Of columns
 * that stand twice the first counts; who took part is not in the file. */
#include "topologies/measured.h"

#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"

enum { LINE = 1024, CELLS = 32 };

/* busbw / algbw of the fastest row; line 0: the table has no busbw(GB/s). */
struct ratio {
    size_t line;
    double busbw, low, high;
};

static void take_ratio(struct ratio *b, const char *text, double algbw, size_t line)
{
    double busbw;
    if (!text_real(text, &busbw) || busbw <= b->busbw)
        return;
    /* Two digits of busbw; times are rounded, too. */
    *b = (struct ratio){line, busbw, (busbw - 0.005) / algbw * 0.999,
                        (busbw + 0.005) / algbw * 1.001};
}

static enum status read_rows(const char *path, const char *text, struct measured *m,
                             struct fabric_curve *c, struct ratio *b)
{
    char line[LINE], *cell[CELLS];
    size_t time = 0;
    double scale = 0;
    text = text_line(text, line, sizeof line);
    size_t columns = text_split(line, ",\r", cell, CELLS);
    for (size_t k = 1; k < columns && !time; k++)
        if (!strncmp(cell[k], "time(", 5)) {
            time = k;
            scale = !strncmp(cell[k] + 5, "ns", 2) ? 1e-9 : 1e-6;
        }
    if (!time || strcmp(cell[0], "size(B)") != 0)
        return error_set(STATUS_PARSE,
                         "%s:1: expected the columns 'size(B)' and 'time(us)' (or 'time(ns)')",
                         path);
    bool has_busbw = time + 1 < columns && !strcmp(cell[time + 1], "busbw(GB/s)");
    for (size_t number = 2; *text; number++) {
        double bytes, value;
        text = text_line(text, line, sizeof line);
        size_t n = text_split(line, ",\r", cell, CELLS);
        if (n == 0)
            continue;
        if (n <= time || !text_real(cell[0], &bytes) || !text_real(cell[time], &value) ||
            bytes < 0 || bytes > 1e18 || value < 0 || value > 1e15)
            return error_set(STATUS_PARSE,
                             "%s:%zu: expected a size of 0 to 1e18 bytes and a time of 0 to 1e15",
                             path, number);
        if (bytes <= 0 || value <= 0 || (c->n > 0 && bytes <= c->bytes[c->n - 1])) {
            m->empty += bytes <= 0;
            m->timeless += bytes > 0 && value <= 0;
            m->repeated += bytes > 0 && value > 0;
            continue;
        }
        if (c->n == FABRIC_POINTS)
            return error_set(STATUS_PARSE, "%s:%zu: more than %d message sizes", path, number,
                             FABRIC_POINTS);
        c->bytes[c->n] = bytes;
        c->seconds[c->n++] = value * scale;
        if (has_busbw && time + 1 < n)
            take_ratio(b, cell[time + 1], bytes / (value * scale) / 1e9, number);
    }
    return c->n > 0 ? STATUS_OK : error_set(STATUS_PARSE, "%s: table has no rows", path);
}

static bool curve_csv_recognises(const char *text)
{
    return !strncmp(text, "size(B),", 8);
}

static enum status curve_csv_parse(const char *path, const char *text,
                                   const struct measured_hint *hint, struct measured *out)
{
    enum status st;
    struct measured m = {0};
    struct ratio b = {0};
    struct fabric_curve c = {
        .kind = hint->kind, .members = hint->members, .per_node = hint->per_node};
    TRY(ARRAY_NEW(c.bytes, FABRIC_POINTS));
    TRY(ARRAY_NEW(c.seconds, FABRIC_POINTS));
    TRY(read_rows(path, text, &m, &c, &b));
    if (!hint->has_kind || hint->members < 2)
        FAIL(STATUS_PARSE,
             "%s: the file does not name its collective and ranks; give KIND:NODESxGPUS=FILE such "
             "as all-reduce:1x8=FILE (1 node of 8 GPUs)",
             path);
    if (b.line > 0)
        TRY(measured_check_ratio(path, b.line, &c, b.low, b.high));
    TRY(text_copy("*", &c.tier));
    TRY(ARRAY_ROOM(m.curve, m.n));
    MOVE(&m.curve[m.n++], c);
    MOVE(out, m);
out:
    fabric_curve_free(&c);
    measured_free(&m);
    return st;
}

const struct measured_format measured_csv = {
    .name = "csv",
    .summary = "CSV with columns size(B) and time(us) or time(ns)",
    .recognises = curve_csv_recognises,
    .parse = curve_csv_parse,
};
