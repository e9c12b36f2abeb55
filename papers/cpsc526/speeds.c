/* A matrix of speeds between devices, as the project's benchmark leaves one: NumPy's .npy (format 1
 * to 3, of float32, float64, int32 or int64), lines of numbers, or the pairs of `calibrate
 * --matrix`. */
#include "papers/cpsc526/speeds.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/intern.h"
#include "core/base/text.h"
#include "papers/cpsc526/problem.h"

enum { LINE = 1 << 20, PAIR = 5, HEAD = 10, HEADER = 4096 };

static enum status speeds_error(const char *path, const char *what)
{
    return error_set(STATUS_PARSE, "%s: %s", path, what);
}

static enum status speeds_room_for(size_t k, struct cpsc526_speeds *out)
{
    out->k = k;
    return ARRAY_NEW(out->speed, k * k);
}

/* ---- .npy */

/* "(3, 3)" behind 'shape': a square. */
static bool speeds_square(const char *header, size_t *k)
{
    const char *at = strstr(header, "'shape':");
    unsigned long rows = 0, columns = 0;
    if (!at || sscanf(at, "'shape': (%lu, %lu", &rows, &columns) != 2 || rows != columns)
        return false;
    *k = rows;
    return rows >= 1 && rows <= CPSC526_MAX_PARTS;
}

static const struct npy_type {
    const char *name;
    bool real;
    size_t bytes;
} npy_types[] = {{"'<f4'", true, 4}, {"'<f8'", true, 8}, {"'<i4'", false, 4}, {"'<i8'", false, 8}};

static const struct npy_type *npy_type_of(const char *header)
{
    for (size_t i = 0; i < sizeof npy_types / sizeof *npy_types; i++)
        if (strstr(header, npy_types[i].name))
            return &npy_types[i];
    return NULL;
}

/* Numbers are little-endian, as on every machine that this runs on. */
static enum status read_npy(const char *path, const char *text, size_t length,
                            struct cpsc526_speeds *out)
{
    union {
        float f4;
        double f8;
        int32_t i4;
        int64_t i8;
    } number;
    char header[HEADER];
    size_t k, at = HEAD, size = (unsigned char)text[8] + 256u * (unsigned char)text[9];
    if (text[6] > 1) { /* versions 2 and 3 have four bytes of length */
        if (length < HEAD + 2)
            return speeds_error(path, "truncated .npy file: it ends in its header");
        size += 65536u * (unsigned char)text[10] + 16777216u * (unsigned char)text[11];
        at += 2;
    }
    if (size >= HEADER || length - at < size)
        return speeds_error(path, "truncated .npy file: it ends in its header");
    memcpy(header, text + at, size);
    header[size] = '\0';
    at += size;
    const struct npy_type *type = npy_type_of(header);
    if (!type || strstr(header, "'fortran_order': True") || !speeds_square(header, &k))
        return speeds_error(
            path, "expected a square .npy of float32, float64, int32 or int64, in C order");
    if (length - at < k * k * type->bytes)
        return speeds_error(path, "truncated .npy file: it ends before its last number");
    PASS(speeds_room_for(k, out));
    for (size_t i = 0; i < k * k; i++) {
        memcpy(&number, text + at + i * type->bytes, type->bytes);
        out->speed[i] = type->real && type->bytes == 4 ? (double)number.f4
                        : type->real                   ? number.f8
                        : type->bytes == 4             ? (double)number.i4
                                                       : (double)number.i8;
    }
    return STATUS_OK;
}

/* ---- texts */

static enum status speeds_read_row(const char *path, char *const *word, size_t words, size_t row,
                                   struct cpsc526_speeds *out)
{
    if (row == 0)
        PASS(speeds_room_for(words, out));
    if (words != out->k || row >= out->k)
        return error_set(
            STATUS_PARSE,
            "%s: row %zu has %zu numbers, but the first row has %zu; expected a square matrix",
            path, row + 1, words, out->k);
    for (size_t i = 0; i < words; i++)
        if (!text_real(word[i], &out->speed[row * out->k + i]))
            return error_set(STATUS_PARSE, "%s: row %zu: got '%.40s', expected a number", path,
                             row + 1, word[i]);
    return STATUS_OK;
}

/* "rank0 rank1 latency bandwidth normalised": names in the order in which they come, k * k
 * lines. */
static enum status read_pairs(const char *path, const char *text, struct cpsc526_speeds *out)
{
    enum status st = STATUS_OK;
    char line[HEADER], *word[PAIR + 1];
    struct interner names = {0};
    size_t lines = 0, k = 0;
    for (const char *at = text; *at; lines += line[0] && line[0] != '#')
        at = text_line(at, line, sizeof line);
    while (k * k < lines)
        k++;
    if (k == 0 || k * k != lines || k > CPSC526_MAX_PARTS)
        return error_set(
            STATUS_PARSE,
            "%s: got %zu device pairs, expected a square number such as 16 for 4 devices", path,
            lines);
    TRY(speeds_room_for(k, out));
    for (const char *at = text; *at;) {
        uint32_t from, to;
        double speed;
        at = text_line(at, line, sizeof line);
        if (!line[0] || line[0] == '#')
            continue;
        if (text_split(line, "\t", word, PAIR + 1) != PAIR || !text_real(word[PAIR - 1], &speed)) {
            st = speeds_error(
                path, "expected five columns: from, to, latency_s, bandwidth_Bps, normalised");
            goto out;
        }
        TRY(intern(&names, word[0], strlen(word[0]) + 1, &from, NULL));
        TRY(intern(&names, word[1], strlen(word[1]) + 1, &to, NULL));
        if (from >= k || to >= k) {
            st = speeds_error(path,
                              "got more device names than the square root of the number of pairs");
            goto out;
        }
        out->speed[from * k + to] = speed;
    }
out:
    interner_free(&names);
    return st;
}

static enum status speeds_read_rows(const char *path, const char *text, struct cpsc526_speeds *out)
{
    enum status st = STATUS_OK;
    char *line = NULL, **word = NULL;
    size_t row = 0;
    TRY(ARRAY_NEW(line, LINE));
    TRY(ARRAY_NEW(word, CPSC526_MAX_PARTS + 1));
    for (const char *at = text; *at;) {
        at = text_line(at, line, LINE);
        if (line[0] == '#')
            continue;
        size_t words = text_split(line, " \t,;\r", word, CPSC526_MAX_PARTS + 1);
        if (words > 0)
            TRY(speeds_read_row(path, word, words, row++, out));
    }
    if (row == 0 || row != out->k)
        st = error_set(STATUS_PARSE, "%s: got %zu rows of %zu numbers, expected a square matrix",
                       path, row, out->k);
out:
    free(word);
    free(line);
    return st;
}

/* ---- */

static enum status speeds_check_table(const char *path, const struct cpsc526_speeds *s)
{
    for (size_t i = 0; i < s->k * s->k; i++)
        if (!(s->speed[i] >= 0 && isfinite(s->speed[i])))
            return error_set(STATUS_PARSE,
                             "%s: row %zu, column %zu: expected a finite speed of at least 0", path,
                             i / s->k + 1, i % s->k + 1);
    return STATUS_OK;
}

enum status cpsc526_speeds_parse(const char *path, const char *text, size_t length,
                                 struct cpsc526_speeds *out)
{
    enum status st;
    struct cpsc526_speeds s = {0};
    if (length >= HEAD && memcmp(text, "\x93NUMPY", 6) == 0)
        TRY(read_npy(path, text, length, &s));
    else if (strncmp(text, "# from\t", 7) == 0)
        TRY(read_pairs(path, text, &s));
    else
        TRY(speeds_read_rows(path, text, &s));
    TRY(speeds_check_table(path, &s));
    MOVE(out, s);
out:
    free(s.speed);
    return st;
}

enum status cpsc526_speeds_read(const char *path, struct cpsc526_speeds *out)
{
    char *text = NULL;
    size_t length;
    PASS(file_read(path, &text, &length));
    enum status st = cpsc526_speeds_parse(path, text, length, out);
    free(text);
    return st;
}
