/* The importer of ONNX files.
 *
 * ONNX (github.com/onnx/onnx, Apache-2.0) is a graph of operators as a protocol buffer. Steps: (1)
 * nodes, shapes and small tensors of the file (file.c), of which weights are skipped; (2) shapes of
 * all values and what they depend on (shape.c); (3) groups of nodes that are one layer (pattern.c);
 * (4) ops with the formulas of the zoo's layers (build.c). Backward work follows from forward work
 * by those formulas: the file is a forward pass. What a batch has is divided by its samples.
 * docs/reference/import-models.md has the rules.
 *
 * Choices: a size for each dimension that has a name, "batch=8,seq=128"; inputs=N. */
#include "model/import.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/text.h"
#include "model/onnx/build.h"

static const uint64_t max_size = 1000000000;

/* ":batch=8,seq=128", cut up in place. */
static enum status onnx_read_choices(const char *path, char *text, struct onnx_choices *c)
{
    char *pair[ONNX_RANK];
    size_t n = text_split(text, ":,", pair, ONNX_RANK);
    for (size_t i = 0; i < n; i++) {
        char *equals = strrchr(pair[i], '=');
        uint64_t value;
        if (!equals || !text_count(equals + 1, max_size, &value) || value == 0)
            return error_set(STATUS_INVALID, "%s: got '%.60s', expected NAME=SIZE from 1 to 1e9",
                             path, pair[i]);
        *equals = '\0';
        if (strcmp(pair[i], "inputs") == 0)
            c->inputs = (int64_t)value;
        else if (c->n < ONNX_RANK - 1)
            c->at[c->n++] = (struct onnx_choice){pair[i], (int64_t)value, false};
        else
            return error_set(STATUS_INVALID, "%s: more than %d NAME=SIZE settings of dimensions",
                             path, ONNX_RANK - 1);
    }
    return STATUS_OK;
}

/* Every size is of a dimension that there is. */
static enum status onnx_check_used(const struct onnx_graph *g, const struct onnx_choices *c)
{
    const char *nearest = NULL;
    char hint[TEXT_HINT];
    for (size_t i = 0; i < c->n; i++) {
        if (c->at[i].used)
            continue;
        size_t best = text_reach(c->at[i].name);
        for (size_t k = 0; k < g->inputs; k++) {
            const struct onnx_value *v = &g->value[g->input[k]];
            for (size_t d = 0; d < v->stated_rank; d++)
                if (v->stated_dim[d].symbol &&
                    text_is_nearer(c->at[i].name, v->stated_dim[d].symbol, &best))
                    nearest = v->stated_dim[d].symbol;
        }
        return error_set(STATUS_INVALID, "%s: unknown dynamic dimension '%.60s'%s", g->path,
                         c->at[i].name, text_hint(nearest, hint));
    }
    return STATUS_OK;
}

static enum status read_source(struct wire_source *s, const struct import_options *o,
                               struct model *out)
{
    enum status st;
    struct onnx_graph g = {0};
    struct onnx_choices choices = {0};
    char *text = NULL;
    int64_t batch;
    TRY(import_check_options(o));
    if (o->choices) {
        TRY(text_copy(o->choices, &text));
        TRY(onnx_read_choices(s->path, text, &choices));
    }
    TRY(onnx_read(wire_all(s), &g));
    TRY(onnx_infer(&g, &choices, &batch));
    TRY(onnx_check_used(&g, &choices));
    TRY(onnx_build(&g, batch, out));
out:
    onnx_free(&g);
    free(text);
    return st;
}

static enum status onnx_parse(const char *path, const char *text, size_t length,
                              const struct import_options *o, struct model *out)
{
    struct wire_source s = {.path = path, .memory = text, .length = length};
    return read_source(&s, o, out);
}

static enum status parse_file(const char *path, int fd, uint64_t length,
                              const struct import_options *o, struct model *out)
{
    enum status st;
    struct wire_source s = {.path = path, .fd = fd, .length = length};
    TRY(ARRAY_NEW(s.window, (size_t)WIRE_WINDOW));
    st = read_source(&s, o, out);
out:
    free(s.window);
    return st;
}

const struct importer importer_onnx = {
    .name = "onnx",
    .summary = "ONNX without its weights; set a dynamic dimension with :NAME=SIZE",
    .takes_choices = true,
    .recognises = onnx_looks_so,
    .parse = onnx_parse,
    .parse_file = parse_file,
};
