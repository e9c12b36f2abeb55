/* A model for people: its ops with work, memory and inputs, and their sums. */
#include "study/model_text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/units.h"

/* A comma stands where a multiple of three digits follows, but not behind a sign. */
const char *model_grouped(int64_t value, char text[MODEL_GROUPED])
{
    char digits[MODEL_GROUPED];
    int n = snprintf(digits, sizeof digits, "%" PRId64, value), used = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0 && digits[i - 1] != '-')
            text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

/* Sums over all ops; bytes and FLOP per sample, seconds of the first profile. */
struct totals {
    double forward_flop, backward_flop, forward_s, backward_s;
    int64_t stash_bytes, output_bytes, parameter_bytes;
};

/* Seconds of the first profile stand for all: a file may have several, of other batch sizes. */
static struct totals model_sum_flop(const struct model *m)
{
    struct totals t = {0};
    for (size_t i = 0; i < m->n; i++) {
        t.forward_flop += m->op[i].forward_flop;
        t.backward_flop += m->op[i].backward_flop;
        t.stash_bytes += m->op[i].stash_bytes;
        t.output_bytes += m->op[i].output_bytes;
        t.parameter_bytes += m->op[i].parameter_bytes;
        if (m->profiles > 0) {
            t.forward_s += m->profile[0].forward_s[i];
            t.backward_s += m->profile[0].backward_s[i];
        }
    }
    return t;
}

/* A quantity with its unit, "-" for none: most ops have no parameters or keep nothing. */
static void model_print_cell(enum unit unit, double value, FILE *out)
{
    fprintf(out, "  %12s", value == 0 ? "-" : units_of(unit, value).text);
}

/* One line of the table; `timed` chooses measured seconds in place of FLOP. */
static void model_print_table_row(const char *name, const char *kind, int width, bool timed,
                                  const struct totals *t, FILE *out)
{
    fprintf(out, "%-*s  %-12.24s", width, name, kind);
    model_print_cell(timed ? UNIT_SECONDS : UNIT_FLOP, timed ? t->forward_s : t->forward_flop, out);
    model_print_cell(timed ? UNIT_SECONDS : UNIT_FLOP, timed ? t->backward_s : t->backward_flop,
                     out);
    model_print_cell(UNIT_BYTES, (double)t->parameter_bytes, out);
    model_print_cell(UNIT_BYTES, (double)t->stash_bytes, out);
    model_print_cell(UNIT_BYTES, (double)t->output_bytes, out);
}

/* The ops that an op reads, and whose weights it shares (tied embeddings). */
static void print_inputs(const struct model *m, size_t i, FILE *out)
{
    const char *blank = "  ";
    for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++, blank = " ")
        fprintf(out, "%s%s", blank, m->op[m->in[k]].name);
    if (m->op[i].shares != MODEL_NO_OP)
        fprintf(out, " (weights of %s)", m->op[m->op[i].shares].name);
    putc('\n', out);
}

/* Name, note, counts, and what each profile was measured on. */
static void print_header(const struct model *m, FILE *out)
{
    char text[MODEL_GROUPED];
    fprintf(out, "# %s\n", m->name);
    if (m->note)
        fprintf(out, "# %s\n", m->note);
    fprintf(out, "# %zu ops, %zu edges, %s parameters", m->n, m->edges,
            model_grouped(model_parameters(m), text));
    if (m->tokens_per_sample > 0)
        fprintf(out, ", %g tokens per sample", m->tokens_per_sample);
    putc('\n', out);
    for (size_t k = 0; k < m->profiles; k++) {
        const struct model_profile *p = &m->profile[k];
        fprintf(out, "# times measured on %s, microbatch of %g sample%s",
                *p->device ? p->device : "an unnamed device", p->samples,
                p->samples == 1 ? "" : "s");
        if (p->tensor_parallel > 1)
            fprintf(out, ", tensor-parallel degree %u", p->tensor_parallel);
        putc('\n', out);
    }
}

/* Models of other tools have times instead of FLOP: a table has one or the other. Names set the
 * width of the first column, up to 40. */
void model_print(const struct model *m, FILE *out)
{
    struct totals all = model_sum_flop(m);
    bool timed = all.forward_flop == 0 && m->profiles > 0;
    int width = 5;
    for (size_t i = 0; i < m->n; i++) {
        int length = (int)strlen(m->op[i].name);
        width = length > 40 ? 40 : length > width ? length : width;
    }
    print_header(m, out);
    fprintf(out, "%-*s  %-12s  %12s  %12s  %12s  %12s  %12s  %s\n", width, "# op", "kind",
            timed ? "forward_s" : "forward", timed ? "backward_s" : "backward", "parameters",
            "stash/sample", "output", "inputs");
    for (size_t i = 0; i < m->n; i++) {
        const struct model_op *op = &m->op[i];
        struct totals row = {
            .forward_flop = op->forward_flop,
            .backward_flop = op->backward_flop,
            .forward_s = timed ? m->profile[0].forward_s[i] : 0,
            .backward_s = timed ? m->profile[0].backward_s[i] : 0,
            .parameter_bytes = op->parameter_bytes,
            .stash_bytes = op->stash_bytes,
            .output_bytes = op->output_bytes,
        };
        model_print_table_row(op->name, op->kind, width, timed, &row, out);
        print_inputs(m, i, out);
    }
    model_print_table_row("# all", "", width, timed, &all, out);
    putc('\n', out);
}

/* The first `n` letters of a name as a cell. */
static void put_name(FILE *to, const char *name, size_t n)
{
    text_put_guard(to, name);
    for (const char *c = name; *c && n > 0; c++, n--)
        putc((unsigned char)*c < ' ' ? ' ' : *c, to);
}

enum status model_profile_table(const struct model *m, const char *path, char **text,
                                size_t *length)
{
    const struct model_profile *p = m->profile;
    char *buffer = NULL;
    if (m->profiles == 0)
        return error_set(STATUS_INVALID,
                         "%s: no measured times; measure them with foreline model profile MODEL "
                         "--graph graph.txt",
                         path);
    FILE *to = open_memstream(&buffer, length);
    if (!to)
        return error_set(STATUS_NOMEM, "%s: out of memory", path);
    fputs("layer\tkind\tforward_s\tbackward_s\tactivation_bytes\tparameter_bytes\n", to);
    for (size_t i = 0; i < m->n; i++) {
        put_name(to, m->op[i].name, SIZE_MAX);
        putc('\t', to);
        text_put_guard(to, m->op[i].kind);
        fprintf(to, "%.24s\t%.9g\t%.9g\t%.17g\t%" PRId64 "\n", m->op[i].kind, p->forward_s[i],
                p->backward_s[i], (double)m->op[i].output_bytes * p->samples,
                m->op[i].parameter_bytes);
    }
    if (fclose(to) != 0) {
        free(buffer);
        return error_set(STATUS_NOMEM, "%s: out of memory", path);
    }
    *text = buffer;
    return STATUS_OK;
}

/* The stage of each op, and SIZE_MAX where no plan has it. */
static enum status graph_stages(const struct model *m, const struct plan *p, size_t **out)
{
    PASS(ARRAY_NEW(*out, m->n));
    for (size_t i = 0; i < m->n; i++)
        (*out)[i] = SIZE_MAX;
    for (size_t s = 0; p && s < p->stages; s++)
        for (size_t k = 0; k < p->stage[s].ops; k++)
            (*out)[p->stage[s].op[k]] = s;
    return STATUS_OK;
}

static void graph_put_op(FILE *to, const struct model *m, size_t i)
{
    const char *name = m->op[i].name, *in = model_in_layer(m, i);
    size_t layer = model_in_block(m, i) ? strlen(name) - strlen(in) : 0;
    put_name(to, name, SIZE_MAX);
    putc('\t', to);
    if (layer > 0)
        put_name(to, name, layer - (*in != '\0'));
    putc('\t', to);
}

enum status model_graph_table(const struct model *m, const struct plan *p, const struct topology *t,
                              char **text, size_t *length)
{
    char *buffer = NULL;
    size_t *stage = NULL;
    enum status st = graph_stages(m, p, &stage);
    FILE *to = st == STATUS_OK ? open_memstream(&buffer, length) : NULL;
    if (!to) {
        free(stage);
        return error_set(STATUS_NOMEM, "out of memory");
    }
    fputs("op\tlayer\tstage\tinputs\n", to);
    for (size_t i = 0; i < m->n; i++) {
        graph_put_op(to, m, i);
        if (stage[i] != SIZE_MAX) {
            const struct plan_stage *s = &p->stage[stage[i]];
            fprintf(to, "%zu: ", stage[i]);
            put_name(to, t->device[s->device[0]], SIZE_MAX);
            if (s->devices > 1)
                fprintf(to, " + %zu", s->devices - 1);
        }
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
            fprintf(to, "%c%" PRIu32, k == m->in_start[i] ? '\t' : ',', m->in[k]);
        fputs(m->in_start[i] == m->in_start[i + 1] ? "\t\n" : "\n", to);
    }
    free(stage);
    if (fclose(to) != 0) {
        free(buffer);
        return error_set(STATUS_NOMEM, "out of memory");
    }
    *text = buffer;
    return STATUS_OK;
}
