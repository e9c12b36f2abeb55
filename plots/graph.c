/* A model's graph from left to right: a box for each op, or of large models for each layer or chain
 * of ops, coloured by stage; black lines are what stages send to each other. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "plots/figure.h"
#include "plots/kind.h"
#include "plots/layered.h"

enum {
    MARGIN = 12,
    BOTTOM = 8,
    WIDEST = 1600,
    COLUMN = 24,    /* pixels that a column takes if there is room: 60 % its boxes */
    ALONGSIDE = 72, /* from there on names are not turned */
    LEAST_BOX = 11, /* width of a box with a turned name */
    LETTER = 6,
    GAP = 7,
    LETTERS = 14, /* of a turned name */
    FEW = 40,     /* boxes up to which every op has one */
    MOST = 400,
    MOST_KEYS = 64,
    NAME_ROOM = 160
};

enum { OP, LAYER, STAGE, INPUTS, GRAPH_COLUMNS };
static const char *const names[GRAPH_COLUMNS] = {"op", "layer", "stage", "inputs"};
static const char plain[] = "#9CC9E8", inner[] = "#909090", between[] = "#000000";

struct graph {
    const struct plot_table *t;
    size_t column[GRAPH_COLUMNS], n;
    size_t *node;               /* [rows] the box of each op */
    size_t *first, *last, *ops; /* [n] rows of a box */
    size_t edges;
    struct layered_edge *edge; /* [edges] by `to`, then `from` */
    struct layered place;
    size_t stages; /* 0: no plan */
    struct figure_key key[MOST_KEYS];
};

static void graph_free(struct graph *g)
{
    free(g->node);
    free(g->first);
    free(g->last);
    free(g->ops);
    free(g->edge);
    layered_free(&g->place);
}

static const char *graph_cell(const struct graph *g, size_t row, int column)
{
    return table_cell(g->t, row, g->column[column]);
}

/* ---- boxes */

/* The next row that op `row` reads; *at runs through the cell. */
static bool next_input(size_t row, const char **at, size_t *input)
{
    char *end;
    if (**at == '\0')
        return false;
    *input = strtoul(*at, &end, 10);
    *at = *end == ',' ? end + 1 : end;
    return *input < row;
}

static int by_reader(const void *a, const void *b)
{
    const struct layered_edge *x = a, *y = b;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Lines between boxes, each once. */
static enum status graph_make_edges(struct graph *g)
{
    size_t n = 0, input;
    free(g->edge);
    g->edge = NULL;
    for (size_t i = 0; i < g->t->rows; i++)
        for (const char *at = graph_cell(g, i, INPUTS); next_input(i, &at, &input); n++)
            ;
    PASS(ARRAY_NEW(g->edge, n + 1));
    g->edges = 0;
    for (size_t i = 0; i < g->t->rows; i++)
        for (const char *at = graph_cell(g, i, INPUTS); next_input(i, &at, &input);)
            if (g->node[input] != g->node[i])
                g->edge[g->edges++] = (struct layered_edge){g->node[input], g->node[i]};
    qsort(g->edge, g->edges, sizeof *g->edge, by_reader);
    n = g->edges;
    g->edges = 0;
    for (size_t k = 0; k < n; k++)
        if (k == 0 || by_reader(&g->edge[k], &g->edge[g->edges - 1]) != 0)
            g->edge[g->edges++] = g->edge[k];
    return STATUS_OK;
}

/* Ops in a row that share layer and stage become a box. */
static void graph_join_layers(struct graph *g)
{
    g->n = 0;
    for (size_t i = 0; i < g->t->rows; i++) {
        bool same = i > 0 && *graph_cell(g, i, LAYER) != '\0' &&
                    strcmp(graph_cell(g, i, LAYER), graph_cell(g, i - 1, LAYER)) == 0 &&
                    strcmp(graph_cell(g, i, STAGE), graph_cell(g, i - 1, STAGE)) == 0;
        g->n += !same;
        g->node[i] = g->n - 1;
    }
}

/* A box that alone reads another, and nothing else, joins it. Boxes keep the order of their first
 * ops, so that lines still go from lower to higher ones. */
static enum status graph_join_chains(struct graph *g)
{
    size_t *readers, *reads, *from, *to, n = 0;
    PASS(ARRAY_NEW(readers, 4 * g->n + 1));
    reads = readers + g->n;
    from = reads + g->n;
    to = from + g->n;
    for (size_t k = 0; k < g->edges; k++) {
        readers[g->edge[k].from]++;
        reads[g->edge[k].to]++;
        from[g->edge[k].to] = g->edge[k].from;
    }
    for (size_t i = 0; i < g->n; i++) {
        bool joins =
            reads[i] == 1 && readers[from[i]] == 1 &&
            strcmp(graph_cell(g, g->first[i], STAGE), graph_cell(g, g->first[from[i]], STAGE)) == 0;
        to[i] = joins ? to[from[i]] : n++;
    }
    for (size_t i = 0; i < g->t->rows; i++)
        g->node[i] = to[g->node[i]];
    g->n = n;
    free(readers);
    return STATUS_OK;
}

static void graph_find_rows(struct graph *g)
{
    memset(g->ops, 0, g->n * sizeof *g->ops);
    for (size_t i = 0; i < g->t->rows; i++) {
        size_t k = g->node[i];
        g->first[k] = g->ops[k]++ == 0 ? i : g->first[k];
        g->last[k] = i;
    }
}

static enum status graph_make_boxes(struct graph *g)
{
    size_t rows = g->t->rows;
    PASS(ARRAY_NEW(g->node, rows));
    PASS(ARRAY_NEW(g->first, rows));
    PASS(ARRAY_NEW(g->last, rows));
    PASS(ARRAY_NEW(g->ops, rows));
    g->n = rows;
    for (size_t i = 0; i < rows; i++)
        g->node[i] = i;
    if (g->n > FEW)
        graph_join_layers(g);
    graph_find_rows(g);
    PASS(graph_make_edges(g));
    if (g->n > FEW) {
        PASS(graph_join_chains(g));
        graph_find_rows(g);
        PASS(graph_make_edges(g));
    }
    if (g->n > MOST)
        return error_set(STATUS_INVALID,
                         "%s: model graph has %zu boxes after joining layers and chains, a figure "
                         "shows at most %d. Try foreline plan export PLAN --to dot, for graphviz",
                         g->t->path, g->n, MOST);
    return STATUS_OK;
}

/* "d0", "h3.attn", "conv … relu": what its ops have in common, or the first and the last. */
static const char *graph_name(const struct graph *g, size_t k, size_t letters, char *out)
{
    const char *first = graph_cell(g, g->first[k], OP), *last = graph_cell(g, g->last[k], OP),
               *a = graph_cell(g, g->first[k], LAYER), *b = graph_cell(g, g->last[k], LAYER);
    char text[NAME_ROOM];
    if (g->ops[k] == 1)
        return text_shorten(first, letters, out, NAME_ROOM);
    snprintf(text, sizeof text, "%.60s", *a ? a : first);
    if (strcmp(a, b) != 0 || *a == '\0')
        snprintf(text, sizeof text, "%.60s\xe2\x80\xa6%.60s", *a ? a : first, *b ? b : last);
    return text_shorten(text, letters, out, NAME_ROOM);
}

static size_t graph_stage(const struct graph *g, size_t k)
{
    return g->stages > 0 ? strtoul(graph_cell(g, g->first[k], STAGE), NULL, 10) : 0;
}

/* A key for each stage, "0: n0g0 + 1". */
static enum status graph_make_keys(struct graph *g, const struct plot_style *style)
{
    for (size_t i = 0; i < g->t->rows; i++) {
        const char *stage = graph_cell(g, i, STAGE);
        size_t s = strtoul(stage, NULL, 10);
        if (*stage == '\0')
            return STATUS_OK;
        if (s >= MOST_KEYS)
            return error_set(STATUS_INVALID,
                             "%s: got stage %zu, but a figure shows at most %d stages", g->t->path,
                             s, MOST_KEYS);
        g->key[s] = (struct figure_key){style_shown(style, stage), figure_series_colour(s), 0, 0};
        g->stages = s + 1 > g->stages ? s + 1 : g->stages;
    }
    return STATUS_OK;
}

/* ---- output */

static void graph_put_table(FILE *to, const struct graph *g)
{
    fputs("# box\tops\tfirst\tlast\tstage\tcolumn\treads\n", to);
    for (size_t k = 0; k < g->n; k++) {
        fprintf(to, "%zu\t%zu\t", k, g->ops[k]);
        figure_put_field(to, graph_cell(g, g->first[k], OP));
        putc('\t', to);
        figure_put_field(to, graph_cell(g, g->last[k], OP));
        fprintf(to, "\t%s\t%zu\t", g->stages > 0 ? graph_cell(g, g->first[k], STAGE) : "-",
                g->place.item[k].column);
        for (size_t e = 0, some = 0; e < g->edges; e++)
            if (g->edge[e].to == k)
                fprintf(to, "%s%zu", some++ ? "," : "", g->edge[e].from);
        putc('\n', to);
    }
}

/* Sizes in pixels of the data's area. */
struct graph_sizes {
    double column, box;
    bool turned, named;
};

static double graph_x(const struct graph_sizes *z, const struct layered_item *i, int side)
{
    return ((double)i->column + 0.5) * z->column + side * z->box / 2;
}

/* The line that edge e comes along, from the box that it leaves. */
static void graph_put_line(FILE *script, const struct graph *g, const struct graph_sizes *z,
                           size_t e)
{
    const struct layered_item *item = g->place.item, *at = &item[g->place.source[e]];
    const struct layered_item *to = &item[g->edge[e].to];
    fprintf(script, "%.2f\t%.2f\n", graph_x(z, to, -1), to->y);
    for (; at->passes; at = &item[at->before])
        fprintf(script, "%.2f\t%.2f\n%.2f\t%.2f\n", graph_x(z, at, 1), at->y, graph_x(z, at, -1),
                at->y);
    fprintf(script, "%.2f\t%.2f\n\n", graph_x(z, at, 1), at->y);
}

static void graph_put_lines(FILE *script, const struct graph *g, const struct graph_sizes *z)
{
    for (int crossing = 0; crossing < 2; crossing++) {
        fprintf(script, "$%s << EOD\n", crossing ? "between" : "inner");
        for (size_t e = 0; e < g->edges; e++)
            if ((graph_stage(g, g->edge[e].from) != graph_stage(g, g->edge[e].to)) == crossing)
                graph_put_line(script, g, z, e);
        fputs("EOD\n", script);
    }
}

static void graph_put_boxes(FILE *script, const struct graph *g, const struct graph_sizes *z)
{
    for (size_t k = 0; k < g->n; k++) {
        const struct layered_item *i = &g->place.item[k];
        const char *colour = g->stages > 0 ? g->key[graph_stage(g, k)].colour : plain;
        char name[NAME_ROOM];
        fprintf(script,
                "set object rectangle from %.2f,%.2f to %.2f,%.2f front fillcolor rgb '%s' "
                "fillstyle solid noborder\n",
                graph_x(z, i, -1), i->y - i->height / 2, graph_x(z, i, 1), i->y + i->height / 2,
                colour);
        if (!z->named)
            continue;
        size_t letters = z->turned ? LETTERS : (size_t)(z->box - 4) / FIGURE_CHARACTER;
        fputs("set label ", script);
        figure_put_string(script, graph_name(g, k, letters, name));
        fprintf(script, " at %.2f,%.2f center %s noenhanced front font ',%d' textcolor rgb '%s'\n",
                graph_x(z, i, 0), i->y, z->turned ? "rotate by 90" : "",
                z->turned ? FIGURE_SMALL - 2 : FIGURE_SMALL, figure_ink(colour));
    }
}

/* Names are turned where a column is narrow, and left to the table where it is narrower still. */
static enum status graph_arrange(struct graph *g, const struct plot_style *style, int *width,
                                 struct graph_sizes *z)
{
    struct layered first;
    enum status st;
    double *height, columns;
    char name[NAME_ROOM];
    PASS(ARRAY_NEW(height, g->n));
    TRY(layered_place(g->n, g->edge, g->edges, height, 1, &first)); /* how many columns */
    columns = (double)first.columns;
    layered_free(&first);
    *width = style->width ? style->width
                          : (int)fmin(fmax(columns * COLUMN + 2 * MARGIN, FIGURE_COLUMN), WIDEST);
    z->column = (*width - 2 * MARGIN) / columns;
    z->box = 0.6 * z->column;
    z->turned = z->column < ALONGSIDE;
    z->named = z->box >= LEAST_BOX;
    for (size_t k = 0; k < g->n; k++) {
        height[k] = FIGURE_LINE + 4;
        if (z->named && z->turned)
            height[k] =
                fmax(height[k], 8 + LETTER * (double)text_columns(graph_name(g, k, LETTERS, name)));
    }
    st = layered_place(g->n, g->edge, g->edges, height, GAP, &g->place);
out:
    free(height);
    return st;
}

static enum status graph_draw(struct graph *g, const struct plot_source *s, const char *output,
                              const struct provenance *by)
{
    enum status st;
    struct figure f = {0};
    struct graph_sizes z;
    char note[PLOT_NOTE] = "";
    struct figure_geometry m = {.left = MARGIN, .right = MARGIN, .note = note, .style = &s->style};
    PASS(graph_arrange(g, &s->style, &m.width, &z));
    snprintf(note, sizeof note, "%zu ops in %zu boxes%s%s%s", g->t->rows, g->n,
             g->stages > 0 ? "; black: between stages" : "",
             g->stages > FIGURE_SERIES ? "; colours repeat after 7 stages" : "",
             z.named ? "" : "; names are in the table");
    figure_set_margins(&m, BOTTOM + 12, g->key, g->stages);
    m.height = s->style.height ? s->style.height : m.top + m.bottom + (int)ceil(g->place.height);
    if (m.height - m.top - m.bottom < (int)g->place.height)
        return error_set(STATUS_USAGE, "--size: this figure needs a height of at least %d pixels",
                         m.top + m.bottom + (int)ceil(g->place.height));
    TRY(figure_open(output, &m, by, &f));
    graph_put_table(f.table, g);
    figure_put_key(f.script, &m, g->key, g->stages);
    figure_put_xlabel(f.script, &m, "");
    graph_put_lines(f.script, g, &z);
    fprintf(f.script, "unset border\nunset tics\nset xrange [0:%d]\nset yrange [%.2f:0]\n",
            m.width - m.left - m.right, g->place.height);
    graph_put_boxes(f.script, g, &z);
    fprintf(f.script,
            "plot $inner using 1:2 with lines linecolor rgb '%s' notitle, $between using 1:2 with "
            "lines linewidth 1.5 linecolor rgb '%s' notitle, NaN notitle\n",
            inner, between);
    TRY(figure_finish(&f));
out:
    figure_discard(&f);
    return st;
}

static enum status draw_graph(const struct plot_source *s, const char *output,
                              const struct provenance *by)
{
    enum status st = STATUS_OK;
    struct graph g = {.t = s->table};
    for (size_t c = 0; c < GRAPH_COLUMNS; c++)
        TRY(table_column(s->table, names[c], &g.column[c]));
    TRY(graph_make_keys(&g, &s->style));
    TRY(graph_make_boxes(&g));
    st = graph_draw(&g, s, output, by);
out:
    graph_free(&g);
    return st;
}

const struct plot_kind plot_graph_kind = {
    .name = "graph",
    .summary = "a model's graph; of a plan coloured by stage",
    .input = PLOT_GRAPH,
    .styles = STYLE_SIZE | STYLE_LEGEND,
    .draw = draw_graph,
};
