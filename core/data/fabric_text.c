/* Curves and the model of collectives as text: properties of platform files. */
#include "core/data/fabric_text.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/units.h"

const char *const fabric_kind_name[FABRIC_KINDS] = {"all-reduce", "all-gather", "reduce-scatter",
                                                    "all-to-all", "broadcast",  "send"};

void fabric_curve_free(struct fabric_curve *c)
{
    free(c->tier);
    free(c->bytes);
    free(c->seconds);
    *c = (struct fabric_curve){0};
}

static const char blanks[] = " \t\r\n";

/* ---- curves */

/* A number of members at *text, which moves behind it. */
static bool fabric_text_read_members(const char **text, uint32_t *out)
{
    size_t n = strspn(*text, "0123456789");
    if (n == 0 || n > 7)
        return false;
    *out = (uint32_t)strtoul(*text, NULL, 10);
    *text += n;
    return *out >= 1 && *out <= FABRIC_MEMBERS;
}

/* "all-reduce:8x8" or "all-reduce:16x8:rail". */
static enum status parse_name(const char *id, struct fabric_curve *c)
{
    size_t n = strcspn(id, ":"), kind = 0;
    const char *at = id + n;
    while (kind < FABRIC_KINDS &&
           (strlen(fabric_kind_name[kind]) != n || memcmp(fabric_kind_name[kind], id, n) != 0))
        kind++;
    c->kind = (enum fabric_kind)kind;
    bool good = kind < FABRIC_KINDS && *at == ':';
    at += good;
    good = good && fabric_text_read_members(&at, &c->members) && *at == 'x';
    at += good;
    good = good && fabric_text_read_members(&at, &c->per_node) && (*at == '\0' || *at == ':');
    if (!good || c->members < 2 || c->members % c->per_node != 0 || strlen(at) > FABRIC_TIER)
        return error_set(STATUS_PARSE,
                         "got 'curve:%.60s', expected curve:KIND:MEMBERSxPER_NODE such as "
                         "curve:all-reduce:16x8, where MEMBERS is a multiple of PER_NODE",
                         id);
    return text_copy(at[0] && at[1] ? at + 1 : "*", &c->tier);
}

/* "32KiB@40us". */
static enum status parse_point(const char *text, size_t n, double *bytes, double *seconds)
{
    char point[80];
    snprintf(point, sizeof point, "%.*s", (int)(n < sizeof point ? n : sizeof point - 1), text);
    char *at = strchr(point, '@');
    if (!at || n >= sizeof point)
        return error_set(STATUS_PARSE, "got '%.40s', expected BYTES@TIME such as 1MiB@40us", point);
    *at = '\0';
    PASS(units_parse(UNIT_BYTES, point, bytes));
    PASS(units_parse(UNIT_SECONDS, at + 1, seconds));
    if (*bytes < 1 || *bytes > 1e18 || *seconds < 1e-12 || *seconds > 1e9)
        return error_set(STATUS_PARSE,
                         "point '%.30s@%.30s': expected 1 to 1e18 bytes and 1e-12 to 1e9 s", point,
                         at + 1);
    return STATUS_OK;
}

static enum status parse_points(const char *text, struct fabric_curve *c)
{
    PASS(ARRAY_NEW(c->bytes, FABRIC_POINTS));
    PASS(ARRAY_NEW(c->seconds, FABRIC_POINTS));
    for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
        size_t n = strcspn(text, blanks);
        if (c->n == FABRIC_POINTS)
            return error_set(STATUS_PARSE,
                             "the measured curve of a collective has more than %d points",
                             FABRIC_POINTS);
        PASS(parse_point(text, n, &c->bytes[c->n], &c->seconds[c->n]));
        if (c->n > 0 && c->bytes[c->n] <= c->bytes[c->n - 1])
            return error_set(STATUS_PARSE,
                             "point '%.*s': expected more bytes than at the point before it",
                             n < 80 ? (int)n : 80, text);
        c->n++;
        text += n;
    }
    return c->n > 0 ? STATUS_OK
                    : error_set(STATUS_PARSE, "the measured curve of a collective has no points, "
                                              "expected BYTES@TIME such as 1MiB@40us");
}

enum status fabric_curve_parse(const char *id, const char *value, struct fabric_curve *out)
{
    enum status st;
    struct fabric_curve c = {0};
    TRY(parse_name(id, &c));
    TRY(parse_points(value, &c));
    MOVE(out, c);
out:
    fabric_curve_free(&c);
    return st;
}

void fabric_curve_put_name(FILE *to, const struct fabric_curve *c)
{
    fprintf(to, "%s:%ux%u", fabric_kind_name[c->kind], c->members, c->per_node);
    if (*c->tier != '*') {
        fputc(':', to);
        text_put_xml(to, c->tier, SIZE_MAX);
    }
}

void fabric_curve_put(FILE *to, const struct fabric_curve *c)
{
    for (size_t i = 0; i < c->n; i++)
        fprintf(to, "%s%.15gB@%.9gs", i ? " " : "", c->bytes[i], c->seconds[i]);
}

bool fabric_curve_same(const struct fabric_curve *a, const struct fabric_curve *b)
{
    return a->kind == b->kind && a->members == b->members && a->per_node == b->per_node &&
           !strcmp(a->tier, b->tier) && a->n == b->n &&
           array_same_numbers(a->bytes, b->bytes, a->n) &&
           array_same_numbers(a->seconds, b->seconds, a->n);
}

/* ---- the model */

static const struct fabric_row {
    const char *name;
    double nic, doubling, hop_s;
} rows[] = {
#define FABRIC(name, nic, doubling, hop_s, source) {#name, nic, doubling, hop_s},
#include "core/data/fabrics.def"
#undef FABRIC
};
enum { ROWS = sizeof rows / sizeof *rows };

const char *fabric_name(size_t i)
{
    return i < ROWS ? rows[i].name : NULL;
}

bool fabric_named(const char *name, struct fabric_model *m)
{
    size_t i = 0;
    while (i < ROWS && strcmp(rows[i].name, name) != 0)
        i++;
    if (i == ROWS)
        return false;
    m->nic = rows[i].nic;
    m->doubling = rows[i].doubling;
    m->hop_s = rows[i].hop_s;
    return true;
}

static const struct fabric_word {
    const char *name;
    size_t offset;
    bool seconds, bytes; /* else a bare number */
    double most;
} words[] = {
    {"start", offsetof(struct fabric_model, start_s), true, false, 1},
    {"share", offsetof(struct fabric_model, share), false, false, 4},
    {"half", offsetof(struct fabric_model, half_bytes), false, true, 1e15},
    {"exponent", offsetof(struct fabric_model, exponent), false, false, 4},
    {"nic", offsetof(struct fabric_model, nic), false, false, 4},
    {"doubling", offsetof(struct fabric_model, doubling), false, false, 1},
    {"hop", offsetof(struct fabric_model, hop_s), true, false, 1},
    {"reduce", offsetof(struct fabric_model, reduce), false, false, 4},
};
enum { WORDS = sizeof words / sizeof *words };

static enum status parse_word(const char *text, size_t n, struct fabric_model *m)
{
    char word[TEXT_PAIR];
    const char *said = text_pair(text, n, word);
    double value = 0;
    size_t k = 0;
    if (!said)
        return error_set(STATUS_PARSE, "got '%.40s', expected NAME=VALUE such as share=0.98", word);
    if (strcmp(word, "fabric") == 0)
        return fabric_named(said, m) ? STATUS_OK
                                     : error_set(STATUS_PARSE,
                                                 "unknown fabric '%.40s', expected a name such as "
                                                 "infiniband, roce, efa or ethernet",
                                                 said);
    while (k < WORDS && !text_same_key(words[k].name, word))
        k++;
    if (k == WORDS)
        return error_set(STATUS_PARSE,
                         "unknown collective constant '%.40s'; known: start, share, half, "
                         "exponent, nic, doubling, hop, reduce and fabric",
                         word);
    if (words[k].seconds || words[k].bytes)
        PASS(units_parse(words[k].bytes ? UNIT_BYTES : UNIT_SECONDS, said, &value));
    else if (!text_real(said, &value))
        return error_set(STATUS_PARSE, "%s: got '%.40s', expected a number", word, said);
    if (!(value >= 0 && value <= words[k].most))
        return error_set(STATUS_PARSE, "%s: got '%.40s', expected 0 to %g", word, said,
                         words[k].most);
    memcpy((char *)m + words[k].offset, &value, sizeof value);
    return STATUS_OK;
}

enum status fabric_model_parse(const char *text, struct fabric_model *out)
{
    struct fabric_model m = {.exponent = 1};
    for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
        size_t n = strcspn(text, blanks);
        PASS(parse_word(text, n, &m));
        text += n;
    }
    if (m.share < 1e-6 && (m.share > 0 || m.nic < 1e-6))
        return error_set(STATUS_PARSE,
                         "share: got %g, expected at least 1e-6, or 0 if nic is at least 1e-6",
                         m.share);
    if (m.nic < 1e-6)
        m.nic = m.share;
    *out = m;
    return STATUS_OK;
}

void fabric_model_put(FILE *to, const struct fabric_model *m)
{
    for (size_t k = 0; k < WORDS; k++) {
        double value;
        memcpy(&value, (const char *)m + words[k].offset, sizeof value);
        fprintf(to, "%s%s=%.9g%s", k ? " " : "", words[k].name, value,
                words[k].seconds ? "s"
                : words[k].bytes ? "B"
                                 : "");
    }
}
