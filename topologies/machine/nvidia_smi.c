/* The matrix of "nvidia-smi topo -m": who reaches whom over what. Columns are split at any blanks,
 * for what copies it mixes them with tabs; "#" before lines, a prompt and prose around it are
 * skipped. A row that was cut off is taken from the column of its name. "topo -mp" is the same
 * without NVLink, "topo -p2p" is another table. */
#include "topologies/machine/machine.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

enum { COLUMNS = 1024, LINE_WORDS = COLUMNS + 8 };
/* NVLinks of a GPU: 18 since Hopper (NVML_NVLINK_MAX_LINKS), 36 of Rubin. */
enum { MOST_LINKS = 36 };

/* What stands in a cell: nothing yet, then how far two devices are from each other; NVLink from NV
 * on. */
enum { UNKNOWN, PIX, PXB, PHB, NODE, SYS, SELF, NV };

static const struct {
    const char *word;
    uint16_t code;
} words[] = {{"PIX", PIX}, {"PXB", PXB}, {"PHB", PHB}, {"NODE", NODE},
             {"SYS", SYS}, {"SOC", SYS}, {"PSB", PIX}, {"X", SELF}};

struct link_matrix {
    struct machine *m;
    const char *path;
    size_t line, n, gpus, cut, inferred, header;
    const char *name[COLUMNS];
    bool gpu[COLUMNS];
    const char *affinity[COLUMNS]; /* CPUs of a row; NULL: not said */
    const char *numa[COLUMNS];     /* "NUMA Affinity" of a row; NULL: not said */
    bool numa_column;
    uint16_t *cell;           /* [n * n] */
    size_t row_line[COLUMNS]; /* 0: no row */
    bool nvlink, legend, nvlink_legend;
};

static bool is_gpu(const char *word)
{
    size_t digits = strncmp(word, "GPU", 3) ? 0 : strspn(word + 3, "0123456789");
    return digits > 0 && !word[3 + digits];
}

/* UNKNOWN: none of a matrix of topo -m. */
static uint16_t code_of(const char *word)
{
    uint64_t links;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (!strcmp(word, words[k].word))
            return words[k].code;
    if (!strncmp(word, "NV", 2) && text_count(word + 2, MOST_LINKS, &links) && links > 0)
        return (uint16_t)(NV + links);
    return UNKNOWN;
}

static bool is_peer_word(const char *word)
{
    static const char *const peer[] = {"OK", "CNS", "GNS", "TNS", "NS", "DR"};
    for (size_t k = 0; k < sizeof peer / sizeof *peer; k++)
        if (!strcmp(word, peer[k]))
            return true;
    return false;
}

/* A row: the name of a device, then cells; behind the name of a column anything is one. */
static bool nvidia_smi_is_row(const struct link_matrix *t, char **word, size_t n)
{
    bool named = n > 1 && (code_of(word[1]) != UNKNOWN || is_peer_word(word[1]));
    for (size_t k = 0; n > 1 && k < t->n && !named; k++)
        named = !strcmp(t->name[k], word[0]);
    return named;
}

static bool nvidia_smi_recognises(const struct machine_source *s)
{
    const char *at = strstr(s->text, "GPU0");
    return at && !strchr("\"<'", *s->text) && s->text[strspn(s->text, " \t\r\n")] != '<' &&
           at - s->text < 4096 && (strstr(at, "X") || strstr(s->text, "nvidia-smi topo"));
}

/* Names of columns; pages that lose blanks glue them together: "GPU0GPU1mlx5_0". */
static enum status nvidia_smi_read_header(struct link_matrix *t, char **word, size_t n)
{
    t->header = t->line;
    for (size_t i = 0; i < n && strcmp(word[i], "CPU") != 0; i++) {
        for (char *at = word[i]; *at;) {
            size_t end = 1;
            while (at[end] &&
                   !(isdigit((unsigned char)at[end - 1]) && isalpha((unsigned char)at[end])))
                end++;
            if (t->n == COLUMNS)
                return error_set(STATUS_PARSE, "%s:%zu: more than %d columns", t->path, t->line,
                                 COLUMNS);
            if (!(t->name[t->n] = arena_text_n(&t->m->arena, at, end)))
                return STATUS_NOMEM;
            for (size_t k = 0; k < t->n; k++)
                if (!strcmp(t->name[k], t->name[t->n]))
                    return error_set(STATUS_PARSE, "%s:%zu: column %s is given twice", t->path,
                                     t->line, t->name[k]);
            t->gpu[t->n] = is_gpu(t->name[t->n]);
            t->gpus += t->gpu[t->n++];
            at += end;
        }
    }
    for (size_t i = 0; i + 1 < n; i++)
        t->numa_column |= !strcmp(word[i], "NUMA") && !strcmp(word[i + 1], "Affinity");
    return ARENA_NEW(&t->m->arena, t->cell, t->n * t->n);
}

static enum status nvidia_smi_read_row(struct link_matrix *t, char **word, size_t n)
{
    size_t row = 0, k = 0;
    while (row < t->n && strcmp(t->name[row], word[0]) != 0)
        row++;
    if (row == t->n)
        return error_set(STATUS_PARSE, "%s:%zu: table has a row for %.40s, but no column", t->path,
                         t->line, word[0]);
    if (t->row_line[row])
        return error_set(STATUS_PARSE, "%s:%zu: %s is given twice, first in line %zu", t->path,
                         t->line, word[0], t->row_line[row]);
    t->row_line[row] = t->line;
    for (; k < t->n && k + 1 < n; k++) {
        uint16_t code = code_of(word[k + 1]);
        if (is_peer_word(word[k + 1]))
            return error_set(STATUS_PARSE,
                             "%s:%zu: got the table of 'nvidia-smi topo -p2p', which does not name "
                             "the links; expected that of 'nvidia-smi topo -m'",
                             t->path, t->line);
        if (code == UNKNOWN || (code == SELF) != (k == row))
            return error_set(STATUS_PARSE, "%s:%zu: got '%.20s' between %s and %s, expected %s",
                             t->path, t->line, word[k + 1], word[0], t->name[k],
                             k == row ? "X" : "NV1 to NV36, PIX, PXB, PHB, NODE or SYS");
        t->cell[row * t->n + k] = code;
        t->nvlink |= code > NV;
    }
    t->cut += k < t->n;
    if (k == t->n && k + 1 < n && isdigit((unsigned char)word[k + 1][0]))
        t->affinity[row] = arena_text(&t->m->arena, word[k + 1]);
    if (k == t->n && k + 2 < n && t->numa_column)
        t->numa[row] = arena_text(&t->m->arena, word[k + 2]);
    return STATUS_OK;
}

static enum status nvidia_smi_read_line(struct link_matrix *t, char *line)
{
    char *word[LINE_WORDS];
    t->legend |= strstr(line, "PIX") && strstr(line, "= ");
    t->nvlink_legend |= strstr(line, "NV#") || strstr(line, "NVLink");
    size_t n = text_split(line + strspn(line, " \t\r#"), " \t\r", word, LINE_WORDS);
    if (n == 0)
        return STATUS_OK;
    if (t->n == 0)
        return n > 0 && !strncmp(word[0], "GPU0", 4) && !nvidia_smi_is_row(t, word, n)
                   ? nvidia_smi_read_header(t, word, n)
                   : STATUS_OK;
    if (nvidia_smi_is_row(t, word, n))
        return nvidia_smi_read_row(t, word, n);
    size_t name = strlen(word[0]); /* "NIC0: mlx5_0" of the legend */
    if (n != 2 || name < 2 || word[0][name - 1] != ':')
        return STATUS_OK;
    word[0][name - 1] = '\0';
    for (size_t k = 0; k < t->n; k++)
        if (!strcmp(t->name[k], word[0]) && !(t->name[k] = arena_text(&t->m->arena, word[1])))
            return STATUS_NOMEM;
    return STATUS_OK;
}

/* Every GPU has a row, and all ports or none: a row that was lost in copying would be made up from
 * its column. */
static enum status check_rows(const struct link_matrix *t)
{
    size_t ports = 0;
    for (size_t i = 0; i < t->n; i++)
        ports += !t->gpu[i] && t->row_line[i];
    for (size_t i = 0; i < t->n; i++)
        if (!t->row_line[i] && (t->gpu[i] || ports > 0))
            return error_set(STATUS_PARSE,
                             "%s:%zu: table has a column for %s, but no row; copy the whole output "
                             "of 'nvidia-smi topo -m'",
                             t->path, t->header, t->name[i]);
    return STATUS_OK;
}

/* Two ports without rows: no further from each other than over the GPU that is nearest to both, and
 * as far where they are not as far from one. UNKNOWN: no GPU says anything of both. */
static uint16_t between_ports(const struct link_matrix *t, size_t i, size_t j)
{
    uint16_t least = UNKNOWN;
    for (size_t g = 0; g < t->n; g++) {
        uint16_t a = t->cell[g * t->n + i], b = t->cell[g * t->n + j];
        uint16_t over = a > b ? a : b;
        if (t->gpu[g] && a && b && (least == UNKNOWN || over < least))
            least = over;
    }
    return least;
}

/* Each pair from both of its cells: one may have been cut off. */
static enum status nvidia_smi_settle_pairs(struct link_matrix *t)
{
    for (size_t i = 0; i < t->n; i++)
        for (size_t j = 0; j < i; j++) {
            uint16_t *a = &t->cell[i * t->n + j], *b = &t->cell[j * t->n + i];
            if (!*a && !*b && !t->gpu[i] && !t->gpu[j] && (*a = between_ports(t, i, j)))
                t->inferred++;
            if (!*a && !*b)
                return error_set(STATUS_PARSE,
                                 "%s:%zu: table is cut off: the cell of %s and %s is missing",
                                 t->path, t->line, t->name[j], t->name[i]);
            if (*a && *b && *a != *b) {
                PASS(machine_warn(
                    t->m,
                    "%s and %s have two different link types in the table; using the slower one",
                    t->name[j], t->name[i]));
                *a = *b = *a > NV && *b > NV ? (*a < *b ? *a : *b) : (*a > *b ? *a : *b);
            }
            *a = *b = *a ? *a : *b;
            if (*a > NV && !(t->gpu[i] && t->gpu[j]))
                return error_set(STATUS_PARSE,
                                 "%s:%zu: NVLink between %s and %s, which are not GPUs", t->path,
                                 t->line, t->name[j], t->name[i]);
        }
    if (t->inferred > 0)
        PASS(machine_warn(t->m,
                          "%s:%zu: table has columns for ports, but no rows; distances between "
                          "ports are derived from the rows of the GPUs",
                          t->path, t->header));
    if (t->cut)
        return machine_warn(t->m,
                            "%s:%zu: %zu row%s of the matrix cut off; filled in from the columns, "
                            "as the matrix is symmetric",
                            t->path, t->header, t->cut, t->cut == 1 ? "" : "s");
    return STATUS_OK;
}

/* Groups of what is at most `level` apart, by the lowest member. Where NVLink hides how far GPUs
 * are, those of the same CPUs are near. */
static void nvidia_smi_group(const struct link_matrix *t, unsigned level, uint32_t *of)
{
    for (uint32_t i = 0; i < t->n; i++)
        of[i] = i;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < t->n; i++)
            for (size_t j = 0; j < i; j++) {
                uint16_t c = t->cell[i * t->n + j];
                bool near =
                    c <= level || (c > NV && level >= NODE && t->affinity[i] && t->affinity[j] &&
                                   !strcmp(t->affinity[i], t->affinity[j]));
                if (!near || of[i] == of[j])
                    continue;
                uint32_t low = of[i] < of[j] ? of[i] : of[j];
                of[i] = of[j] = low;
                changed = true;
            }
    }
}

/* Ports have no column for it: NODE and nearer are within a NUMA node. */
static const char *nvidia_smi_numa(const struct link_matrix *t, size_t i)
{
    for (size_t g = 0; g < t->n && !t->gpu[i]; g++)
        if (t->gpu[g] && t->numa[g] && t->cell[i * t->n + g] <= NODE)
            return t->numa[g];
    return t->numa[i];
}

/* CPUs, below them switches of PXB, below those switches of PIX; groups of one need no switch. */
static enum status nvidia_smi_build(struct link_matrix *t)
{
    enum status st;
    struct machine *m = t->m;
    uint32_t *of = NULL, *up = NULL, *part, inner;
    static const struct {
        unsigned level;
        enum machine_kind kind;
        const char *name;
    } levels[] = {
        {NODE, MACHINE_CPU, "CPU"}, {PXB, MACHINE_BRIDGE, "PXB"}, {PIX, MACHINE_BRIDGE, "PIX"}};
    TRY(ARRAY_NEW(of, t->n));
    TRY(ARRAY_NEW(up, t->n));
    TRY(ARENA_NEW(&m->arena, part, t->n));
    for (size_t i = 0; i < t->n; i++)
        up[i] = MACHINE_NONE;
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
        nvidia_smi_group(t, levels[l].level, of);
        for (uint32_t i = 0; i < t->n; i++) {
            size_t members = 0;
            char name[32];
            for (uint32_t j = i; of[i] == i && j < t->n; j++)
                members += of[j] == i;
            if (members < (l > 0 ? 2U : 1U))
                continue;
            snprintf(name, sizeof name, "%s%u", levels[l].name, i);
            TRY(machine_add_part(m, levels[l].kind, 0, up[i], name, &inner));
            for (uint32_t j = i; j < t->n; j++)
                up[j] = of[j] == i ? inner : up[j];
        }
    }
    for (size_t i = 0; i < t->n; i++) {
        TRY(machine_add_part(m, t->gpu[i] ? MACHINE_GPU : MACHINE_NIC, 0, up[i], t->name[i],
                             &part[i]));
        m->part[part[i]].line = t->row_line[i] ? t->row_line[i] : t->header;
        TRY(machine_set_numa(m, part[i], nvidia_smi_numa(t, i)));
    }
    for (size_t i = 0; i < t->n; i++)
        for (size_t j = i + 1; j < t->n; j++)
            if (t->cell[i * t->n + j] > NV)
                TRY(machine_join(m, &(struct machine_link){.a = part[i],
                                                           .b = part[j],
                                                           .count = t->cell[i * t->n + j] - NV}));
    m->nodes = 1;
out:
    free(of);
    free(up);
    return st;
}

static enum status nvidia_smi_parse(const struct machine_source *s, struct machine *m)
{
    struct link_matrix *t;
    const char *text = s->text;
    char *line;
    PASS(ARENA_NEW(&m->arena, t, 1));
    t->m = m;
    t->path = s->path;
    while (*text) {
        PASS(machine_line(m, &text, &t->line, &line));
        PASS(nvidia_smi_read_line(t, line));
    }
    if (t->gpus == 0)
        return error_set(STATUS_PARSE, "%s: header GPU0 GPU1 ... of 'nvidia-smi topo -m' not found",
                         s->path);
    PASS(check_rows(t));
    PASS(nvidia_smi_settle_pairs(t));
    if (!t->nvlink && !t->nvlink_legend) {
        m->no_nvlink_seen = true;
        PASS(machine_warn(m,
                          "%s: output of 'nvidia-smi topo -mp', which leaves out NVLink; use "
                          "'nvidia-smi topo -m' to include it",
                          t->legend ? "no NV# in the legend" : "no NV# and no legend"));
    }
    return nvidia_smi_build(t);
}

const struct machine_format machine_nvidia_smi = {
    .name = "nvidia-smi topo -m",
    .summary = "the matrix of GPUs and network ports that nvidia-smi prints",
    .recognises = nvidia_smi_recognises,
    .parse = nvidia_smi_parse,
};
