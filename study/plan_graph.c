/* Plans as CSV, DOT and GraphML: a row, or a node, for each op. In DOT stages are boxes, ops that
 * read nothing have a green border and those that nobody reads a red one. */
#include "study/plan_graph.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "plots/figure.h"
#include "study/model_text.h"

/* The stage of an op, which every op has one of. */
static size_t stage_of(const struct plan *p, uint32_t op)
{
    for (size_t s = 0; s < p->stages; s++)
        for (size_t k = 0; k < p->stage[s].ops; k++)
            if (p->stage[s].op[k] == op)
                return s;
    return p->stages;
}

/* In quotes, those within it doubled (CSV) or behind a backslash (DOT). */
static void plan_graph_put_quoted(FILE *to, const char *text, char before)
{
    putc('"', to);
    if (before == '"') /* of CSV */
        text_put_guard(to, text);
    for (; *text; text++) {
        if (*text == '"' || (before == '\\' && *text == '\\'))
            putc(before, to);
        putc(*text, to);
    }
    putc('"', to);
}

/* Colours begin again behind the seventh stage. */
static const char *plan_graph_colour(size_t stage)
{
    return figure_series_colour(stage);
}

/* Black stands out on light colours only. */
static const char *letters_on(size_t stage)
{
    unsigned red = 0, green = 0, blue = 0;
    sscanf(plan_graph_colour(stage), "#%2x%2x%2x", &red, &green, &blue);
    return 3 * red + 6 * green + blue > 1280 ? "#000000" : "#FFFFFF";
}

/* ---- CSV */

static void write_csv(const struct loaded_plan *p, FILE *to)
{
    fputs("op,kind,stage,replicas,tensor_parallel,devices,forward_flop,backward_flop,"
          "parameter_bytes,stash_bytes,output_bytes\n",
          to);
    for (uint32_t i = 0; i < p->model.n; i++) {
        const struct model_op *o = &p->model.op[i];
        size_t s = stage_of(&p->plan, i);
        const struct plan_stage *stage = &p->plan.stage[s];
        plan_graph_put_quoted(to, o->name, '"');
        putc(',', to);
        plan_graph_put_quoted(to, o->kind, '"');
        fprintf(to, ",%zu,%" PRIu32 ",%" PRIu32 ",\"", s, stage->replicas, stage->tensor_parallel);
        for (size_t k = 0; k < stage->devices; k++)
            fprintf(to, "%s%s", k > 0 ? " " : "", p->topology.device[stage->device[k]]);
        fprintf(to, "\",%.9g,%.9g,%" PRId64 ",%" PRId64 ",%" PRId64 "\n", o->forward_flop,
                o->backward_flop, o->parameter_bytes, o->stash_bytes, o->output_bytes);
    }
}

/* ---- DOT */

/* "h0.linear (524,800)": its name, and its parameters if it has any. */
static void plan_graph_put_node(FILE *to, const struct model *m, uint32_t i, size_t stage)
{
    const struct model_op *o = &m->op[i];
    bool first = m->in_start[i] == m->in_start[i + 1],
         last = m->out_start[i] == m->out_start[i + 1];
    char label[256], parameters[MODEL_GROUPED];
    if (o->parameter_bytes > 0)
        snprintf(label, sizeof label, "%.200s (%s)", o->name,
                 model_grouped(o->parameter_bytes / m->element_bytes, parameters));
    else
        snprintf(label, sizeof label, "%.200s", o->name);
    fprintf(to, "    n%" PRIu32 " [label=", i);
    plan_graph_put_quoted(to, label, '\\');
    fprintf(to, ", fillcolor=\"%s\", fontcolor=\"%s\"%s];\n", plan_graph_colour(stage),
            letters_on(stage),
            first  ? ", color=\"#009E73\", penwidth=4"
            : last ? ", color=\"#C00000\", penwidth=4"
                   : "");
}

static void write_dot(const struct loaded_plan *p, FILE *to)
{
    fputs("digraph plan {\n  rankdir=TB;\n  node [shape=box, style=filled, fontname=\"sans\"];\n",
          to);
    for (size_t s = 0; s < p->plan.stages; s++) {
        fprintf(to, "  subgraph cluster_%zu {\n    label=\"stage %zu\";\n", s, s);
        for (size_t k = 0; k < p->plan.stage[s].ops; k++)
            plan_graph_put_node(to, &p->model, p->plan.stage[s].op[k], s);
        fputs("  }\n", to);
    }
    for (uint32_t i = 0; i < p->model.n; i++)
        for (size_t k = p->model.out_start[i]; k < p->model.out_start[i + 1]; k++)
            fprintf(to, "  n%" PRIu32 " -> n%" PRIu32 ";\n", i, p->model.out[k]);
    fputs("}\n", to);
}

/* ---- GraphML */

static void plan_graph_put_key(FILE *to, const char *name, const char *type)
{
    fprintf(to, "  <key id=\"%s\" for=\"node\" attr.name=\"%s\" attr.type=\"%s\"/>\n", name, name,
            type);
}

static void plan_graph_put_data(FILE *to, const char *key, const char *text)
{
    fprintf(to, "<data key=\"%s\">", key);
    text_put_xml(to, text, SIZE_MAX);
    fputs("</data>", to);
}

static void write_graphml(const struct loaded_plan *p, FILE *to)
{
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n",
          to);
    plan_graph_put_key(to, "name", "string");
    plan_graph_put_key(to, "kind", "string");
    plan_graph_put_key(to, "stage", "int");
    plan_graph_put_key(to, "colour", "string");
    plan_graph_put_key(to, "forward_flop", "double");
    plan_graph_put_key(to, "parameter_bytes", "long");
    fputs("  <graph edgedefault=\"directed\">\n", to);
    for (uint32_t i = 0; i < p->model.n; i++) {
        const struct model_op *o = &p->model.op[i];
        size_t s = stage_of(&p->plan, i);
        fprintf(to, "    <node id=\"n%" PRIu32 "\">", i);
        plan_graph_put_data(to, "name", o->name);
        plan_graph_put_data(to, "kind", o->kind);
        fprintf(to, "<data key=\"stage\">%zu</data>", s);
        plan_graph_put_data(to, "colour", plan_graph_colour(s));
        fprintf(to,
                "<data key=\"forward_flop\">%.9g</data>"
                "<data key=\"parameter_bytes\">%" PRId64 "</data></node>\n",
                o->forward_flop, o->parameter_bytes);
    }
    for (uint32_t i = 0; i < p->model.n; i++)
        for (size_t k = p->model.out_start[i]; k < p->model.out_start[i + 1]; k++)
            fprintf(to, "    <edge source=\"n%" PRIu32 "\" target=\"n%" PRIu32 "\"/>\n", i,
                    p->model.out[k]);
    fputs("  </graph>\n</graphml>\n", to);
}

const struct plan_graph plan_graphs[] = {
    {"csv", write_csv}, {"dot", write_dot}, {"graphml", write_graphml}};
const size_t plan_graphs_n = sizeof plan_graphs / sizeof *plan_graphs;

const struct plan_graph *plan_graph_find(const char *name)
{
    for (size_t i = 0; i < plan_graphs_n; i++)
        if (strcmp(plan_graphs[i].name, name) == 0)
            return &plan_graphs[i];
    return NULL;
}

enum status plan_graph_export(const char *plan, const struct plan_graph *format, const char *output)
{
    enum status st;
    struct loaded_plan p = {0};
    struct file_out f = {0};
    TRY(load_plan_only(plan, &p));
    TRY(file_create(output ? output : "-", &f));
    format->write(&p, f.stream);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    loaded_plan_free(&p);
    return st;
}
