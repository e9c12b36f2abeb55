/* Which reader a file is for, and what readers share. */
#include "measured/reader.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/limit.h"
#include "core/base/text.h"
#include "measured/bytes.h"
#include "measured/lines.h"

#define READER(name) &reader_##name,
const struct reader *const readers[] = {
#include "measured/readers.def"
};
#undef READER
const size_t readers_n = sizeof readers / sizeof *readers;

/* ---- numbers */

bool reader_ns(const char *text, int64_t per_unit, int64_t *out)
{
    const char *at = text;
    bool minus = *at == '-';
    int64_t sum = 0, part = per_unit;
    at += minus;
    if (!isdigit((unsigned char)*at))
        return false;
    for (; isdigit((unsigned char)*at); at++) {
        if (sum > INT64_MAX / 10 / per_unit - 10)
            return false;
        sum = sum * 10 + (*at - '0');
    }
    sum *= per_unit;
    if (*at == '.') {
        for (at++; isdigit((unsigned char)*at); at++) {
            if (part == 1) /* the first digit below a nanosecond rounds */
                sum += *at >= '5';
            if (part >= 1)
                part /= 10;
            sum += part * (*at - '0');
        }
    }
    if (*at == 'e' || *at == 'E') {
        char *end;
        double v = strtod(text, &end) * (double)per_unit;
        if (*end || !(fabs(v) < 9e18))
            return false;
        *out = llround(v);
        return true;
    }
    if (*at)
        return false;
    *out = minus ? -sum : sum;
    return true;
}

/* A text of decimal digits with at most one point. Whole numbers below 2^53 and powers of ten to
 * 10^22 are exact, so that one division rounds as strtod() does, at a tenth of its time. False: not
 * of that kind. Source: Clinger, PLDI 1990, section 4. */
static bool short_number(const char *text, double *out)
{
    static const double power[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    uint64_t number = 0;
    size_t digits = 0, behind = 0;
    bool point = false;
    for (; isdigit((unsigned char)*text) || (*text == '.' && !point); text++) {
        point = point || *text == '.';
        if (*text == '.')
            continue;
        number = number * 10 + (uint64_t)(*text - '0');
        behind += point;
        if (++digits > 15)
            return false;
    }
    if (digits == 0 || *text)
        return false;
    *out = (double)number / power[behind];
    return true;
}

bool reader_number(const char *line, const char *key, double *out)
{
    char digits[64];
    size_t n = 0;
    const char *at = strstr(line, key);
    if (!at)
        return false;
    for (at += strlen(key); *at == ' ' || *at == ':' || *at == '=' || *at == '\t'; at++) {
    }
    for (; n + 1 < sizeof digits; at++)
        if (*at == ',' && isdigit((unsigned char)at[1]))
            continue;
        else if (isalnum((unsigned char)*at) || *at == '+' || *at == '-' || *at == '.')
            digits[n++] = *at;
        else
            break;
    digits[n] = '\0';
    if (short_number(digits, out))
        return true;
    char *end;
    double v = strtod(digits, &end);
    if (end == digits || !isfinite(v))
        return false;
    *out = v;
    return true;
}

/* ---- files */

static enum status reader_unknown(const char *path, bool whole)
{
    char known[TEXT_LIST], more[LIMIT_MORE];
    return error_set(STATUS_PARSE, "%s:1: unknown format of a run, expected one of: %s%s", path,
                     text_list(readers, readers_n, known),
                     whole ? "" : limit_more(LIMIT_size, more));
}

/* The reader that recognises the beginning of a file, or a line of it. */
static enum status read_opened(const char *path, struct bytes *b, struct measured_run *run,
                               const struct reader **out)
{
    char head[READER_HEAD + 1];
    PASS(bytes_more(b));
    size_t length = b->end < READER_HEAD ? b->end : READER_HEAD;
    memcpy(head, b->piece, length);
    head[length] = '\0';
    if (length > 262 && memcmp(head + 257, "ustar", 5) == 0)
        return error_set(STATUS_PARSE, "%s: is an archive; unpack it and give the files in it",
                         path);
    for (size_t i = 0; i < readers_n; i++)
        if (readers[i]->recognises && readers[i]->recognises(head, length)) {
            *out = readers[i];
            return (*out)->read(path, b, run);
        }
    PASS(lines_read(b, run, out));
    return *out ? STATUS_OK : reader_unknown(path, b->end == 0);
}

static enum status reader_read_file(const char *path, struct measured_run *run)
{
    enum status st;
    struct bytes b = {0};
    const struct reader *reader = NULL;
    const char *before = run->format;
    run->events = 0;
    TRY(bytes_open(path, &b));
    TRY(read_opened(b.path, &b, run, &reader));
    if (before && strcmp(before, reader->name) != 0)
        FAIL(STATUS_INVALID, "%s: file is of format %s, but the files before it are %s", path,
             reader->name, before);
    run->format = reader->name;
out:
    bytes_close(&b);
    return st;
}

/* ---- ranks of all files together */

static int by_rank(const void *a, const void *b)
{
    const struct run_rank *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->device > y->device) - (x->device < y->device);
}

/* Ranks that no file numbers get the next numbers, in the order of the files; then all are
 * named. */
static enum status name_ranks(struct measured_run *run)
{
    int64_t next = 0;
    char name[64];
    for (size_t r = 0; r < run->ranks; r++) {
        if (run->rank[r].rank > INT32_MAX)
            return error_set(STATUS_INVALID, "got rank %lld, expected at most %d",
                             (long long)run->rank[r].rank, INT32_MAX);
        next = run->rank[r].rank >= next ? run->rank[r].rank + 1 : next;
    }
    for (size_t r = 0; r < run->ranks; r++)
        if (run->rank[r].rank < 0)
            run->rank[r].rank = next++;
    if (run->ranks > 0)
        qsort(run->rank, run->ranks, sizeof *run->rank, by_rank);
    for (size_t r = 0; r < run->ranks; r++) {
        struct run_rank *one = &run->rank[r];
        bool before = r > 0 && run->rank[r - 1].rank == one->rank;
        bool behind = r + 1 < run->ranks && run->rank[r + 1].rank == one->rank;
        if (before && run->rank[r - 1].device == one->device)
            return error_set(STATUS_INVALID,
                             "rank %lld is in two of the files, expected one file per rank",
                             (long long)one->rank);
        snprintf(name, sizeof name, before || behind ? "rank %lld GPU %lld" : "rank %lld",
                 (long long)one->rank, (long long)one->device);
        PASS(text_copy(name, &one->name));
    }
    return STATUS_OK;
}

enum status measured_run_read(const char *const *path, size_t n, enum run_layers layers,
                              struct measured_run *out)
{
    enum status st = STATUS_OK;
    struct measured_run run = {.layers = layers};
    for (size_t i = 0; i < n; i++)
        TRY(reader_read_file(path[i], &run));
    if (run.lines > 0 && n > 1)
        FAIL(STATUS_INVALID, "%s: give one log or table at a time", path[1]);
    TRY(name_ranks(&run));
    MOVE(out, run);
out:
    measured_run_free(&run);
    return st;
}
