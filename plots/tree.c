/* A machine as a tree of boxes, a row for each level: of many parts of one group the first few are
 * drawn, and a last box says how many more there are. */
#include "plots/tree.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "plots/figure.h"

enum {
    LEFT = 176, /* room for what the levels are */
    MARGIN = 14,
    ROW = 74,
    BOX = 26, /* height */
    APART = 8,
    NAME_MOST = 10, /* characters of a device's name */
    MOST_SHOWN = 8,
    CHARACTER = 7
};

static const char over_colour[] = "#D55E00"; /* less goes up than its parts can send */

/* The part of the tree that is drawn; positions in pixels from the upper left corner. */
struct node {
    size_t level;   /* 0: a device */
    uint32_t first; /* lowest device */
    size_t rest;    /* > 0: not a part but so many more of them */
    int width, x;   /* of the subtree; x: its middle */
    size_t parent;  /* index, itself for the root */
};

struct tree_layout {
    const struct plot_tree *tree;
    size_t *shown; /* [levels] parts of a group that are drawn, innermost first */
    int device_width;
    int top; /* of the outermost level */
    size_t n;
    struct node *node;
};

static enum status tree_add_node(struct tree_layout *l, struct node node, size_t *index)
{
    PASS(ARRAY_ROOM(l->node, l->n));
    *index = l->n;
    l->node[l->n++] = node;
    return STATUS_OK;
}

/* Group of a device on a level; level 0 is the devices themselves. */
static uint32_t tree_group_nodes(const struct plot_tree *t, size_t level, uint32_t device)
{
    return level == 0 ? device : t->level[level - 1].group_of[device];
}

/* The lowest device of the next part after `device` in its group of `level`, UINT32_MAX: none.
 * Parts are numbered by their lowest devices, so a larger number is a part not seen yet. */
static uint32_t tree_next_part(const struct plot_tree *t, size_t level, uint32_t device)
{
    for (uint32_t i = device + 1; i < t->devices; i++)
        if (tree_group_nodes(t, level, i) == tree_group_nodes(t, level, device) &&
            tree_group_nodes(t, level - 1, i) > tree_group_nodes(t, level - 1, device))
            return i;
    return UINT32_MAX;
}

/* Of a box "126 more". */
static int rest_width(size_t rest)
{
    return snprintf(NULL, 0, "%zu more", rest) * CHARACTER + 6;
}

static enum status add_subtree(struct tree_layout *l, size_t level, uint32_t first, size_t parent)
{
    size_t self, parts = 0, drawn, child;
    int width = 0;
    PASS(tree_add_node(l, (struct node){.level = level, .first = first, .parent = parent}, &self));
    if (parent == SIZE_MAX)
        l->node[self].parent = self;
    if (level == 0) {
        l->node[self].width = l->device_width + APART;
        return STATUS_OK;
    }
    for (uint32_t i = first; i != UINT32_MAX; i = tree_next_part(l->tree, level, i))
        parts++;
    drawn = parts <= l->shown[level - 1] + 1 ? parts : l->shown[level - 1];
    uint32_t at = first;
    for (size_t k = 0; k < drawn; k++, at = tree_next_part(l->tree, level, at)) {
        child = l->n;
        PASS(add_subtree(l, level - 1, at, self));
        width += l->node[child].width;
    }
    if (drawn < parts) {
        PASS(tree_add_node(l,
                           (struct node){.level = level - 1,
                                         .rest = parts - drawn,
                                         .width = rest_width(parts - drawn) + APART,
                                         .parent = self},
                           &child));
        width += rest_width(parts - drawn) + APART;
    }
    l->node[self].width = width;
    return STATUS_OK;
}

static enum status tree_make_nodes(struct tree_layout *l)
{
    l->n = 0;
    return add_subtree(l, l->tree->levels, 0, SIZE_MAX);
}

/* As many parts of each group as the page is wide, the innermost first. */
static enum status choose_nodes(struct tree_layout *l, int width)
{
    PASS(ARRAY_NEW(l->shown, l->tree->levels + 1));
    for (size_t i = 0; i < l->tree->levels; i++)
        l->shown[i] = 1;
    for (size_t i = 0; i < l->tree->levels; i++) {
        for (l->shown[i] = MOST_SHOWN; l->shown[i] > 1; l->shown[i]--) {
            PASS(tree_make_nodes(l));
            if (l->node[0].width <= width - LEFT - MARGIN)
                break;
        }
    }
    return tree_make_nodes(l);
}

/* Parts side by side below their group; nodes stand before their parts. */
static void tree_place_nodes(struct tree_layout *l)
{
    l->node[0].x = LEFT + l->node[0].width / 2;
    for (size_t i = 0; i < l->n; i++) {
        int x = l->node[i].x - l->node[i].width / 2;
        for (size_t k = i + 1; k < l->n; k++) {
            if (l->node[k].parent != i)
                continue;
            l->node[k].x = x + l->node[k].width / 2;
            x += l->node[k].width;
        }
    }
}

/* ---- output */

static int tree_row_of(const struct tree_layout *l, size_t level)
{
    return l->top + (int)(l->tree->levels - level) * ROW;
}

static void tree_put_text(FILE *script, const struct figure_geometry *g, double x, double y,
                          const char *how, const char *text)
{
    fputs("set label ", script);
    figure_put_string(script, text);
    fprintf(script, " at screen %.5f,%.5f %s noenhanced front\n", x / g->width, 1 - y / g->height,
            how);
}

static void tree_put_link(FILE *script, const struct figure_geometry *g,
                          const struct tree_layout *l, const struct node *n)
{
    const struct node *p = &l->node[n->parent];
    const struct plot_tree_level *level = &l->tree->level[p->level - 1];
    double fastest = l->tree->level[0].bandwidth_Bps;
    double share = level->bandwidth_Bps / (fastest > 0 ? fastest : 1);
    double from = tree_row_of(l, p->level) + BOX, to = tree_row_of(l, n->level);
    double over = n->level > 0 && !n->rest ? l->tree->level[n->level - 1].oversubscription : 0;
    bool narrow = over > 1 + 1e-9;
    fprintf(script,
            "set arrow from screen %.5f,%.5f to screen %.5f,%.5f nohead back linecolor rgb "
            "'%s' linewidth %.2f%s\n",
            (double)p->x / g->width, 1 - from / g->height, (double)n->x / g->width,
            1 - to / g->height, narrow ? over_colour : "#808080",
            share > 0.5    ? 3.0
            : share > 0.05 ? 2.0
                           : 1.0,
            n->rest ? " dashtype 2" : "");
    if (over > 0) { /* over the line's middle */
        char text[32], how[64];
        snprintf(text, sizeof text, "%.3g:1", over);
        snprintf(how, sizeof how, "center boxed font ',11' textcolor rgb '%s'",
                 narrow ? over_colour : "#505050");
        tree_put_text(script, g, (p->x + n->x) / 2.0, (from + to) / 2, how, text);
    }
}

static void tree_put_node(FILE *script, const struct figure_geometry *g,
                          const struct tree_layout *l, const struct node *n)
{
    char text[64], rate[UNITS_TEXT];
    int y = tree_row_of(l, n->level), width = l->device_width;
    const char *fill = "#CFE8F7", *edge = "#0072B2";
    if (n->rest) {
        width = rest_width(n->rest);
        fill = "#FFFFFF";
        edge = "#A0A0A0";
        snprintf(text, sizeof text, "%zu more", n->rest);
    } else if (n->level == 0) {
        text_shorten(l->tree->device[n->first], NAME_MOST, text, sizeof text);
    } else {
        fill = "#FBE6B5";
        edge = "#B87D00";
        snprintf(text, sizeof text, "%s",
                 units_print(UNIT_RATE, l->tree->level[n->level - 1].bandwidth_Bps, rate));
        width = (int)strlen(text) * CHARACTER + 14;
        width = width > n->width - APART ? n->width - APART : width;
        if (width < (int)strlen(text) * 6 + 4)
            *text = '\0'; /* it stands on the left as well */
    }
    fprintf(script,
            "set object rectangle from screen %.5f,%.5f to screen %.5f,%.5f fillcolor rgb '%s' "
            "fillstyle solid border rgb '%s' linewidth 1\n",
            (n->x - width / 2.0) / g->width, 1 - (double)(y + BOX) / g->height,
            (n->x + width / 2.0) / g->width, 1 - (double)y / g->height, fill, edge);
    tree_put_text(script, g, n->x, y + BOX / 2.0, "center font ',11'", text);
}

/* What the row of a level is, on the left. */
static void put_level(FILE *script, const struct figure_geometry *g, const struct tree_layout *l,
                      size_t level)
{
    const struct plot_tree *t = l->tree;
    char text[96], rate[UNITS_TEXT], time[UNITS_TEXT], more[64] = "";
    double y = tree_row_of(l, level) + 5;
    if (level == 0) {
        snprintf(text, sizeof text, "%zu device%s", t->devices, t->devices == 1 ? "" : "s");
        tree_put_text(script, g, MARGIN, y, "left", text);
        text_shorten(t->type[0], 24, text, sizeof text);
        tree_put_text(script, g, MARGIN, y + FIGURE_LINE, "left font ',11' textcolor rgb '#505050'",
                      text);
        return;
    }
    const struct plot_tree_level *k = &t->level[level - 1];
    text_shorten(k->name, 22, text, sizeof text);
    tree_put_text(script, g, MARGIN, y, "left", text);
    snprintf(text, sizeof text, "%s, %s", units_print(UNIT_RATE, k->bandwidth_Bps, rate),
             units_print(UNIT_SECONDS, k->latency_s, time));
    tree_put_text(script, g, MARGIN, y + FIGURE_LINE, "left font ',11' textcolor rgb '#505050'",
                  text);
    if (level == t->levels && t->bisection_Bps > 0)
        snprintf(more, sizeof more, ", bisection %s",
                 isfinite(t->bisection_Bps) ? units_print(UNIT_RATE, t->bisection_Bps, rate)
                                            : "without limit");
    else if (k->oversubscription > 0)
        snprintf(more, sizeof more, ", %.4g:1 upwards", k->oversubscription);
    snprintf(text, sizeof text, "%zu group%s%s", k->groups, k->groups == 1 ? "" : "s", more);
    tree_put_text(script, g, MARGIN, y + 2 * FIGURE_LINE - 2,
                  "left font ',11' textcolor rgb '#505050'", text);
}

static void tree_put_table(FILE *to, const struct plot_tree *t)
{
    fprintf(to, "# level\tjoined_by\tbandwidth_Bps\tlatency_s\tgroups\tdevices"
                "\toversubscription\tbisection_Bps\n");
    for (size_t i = t->levels; i-- > 0;) {
        fprintf(to, "%zu\t", i + 1);
        figure_put_field(to, t->level[i].name);
        fprintf(to, "\t%.9g\t%.9g\t%zu\t%zu\t%.9g\t%.9g\n", t->level[i].bandwidth_Bps,
                t->level[i].latency_s, t->level[i].groups, t->devices, t->level[i].oversubscription,
                i + 1 == t->levels ? t->bisection_Bps : 0);
    }
}

enum status plot_tree(const struct plot_tree *tree, const struct plot_style *style,
                      const char *output, const struct provenance *by)
{
    enum status st;
    struct figure f = {0};
    struct tree_layout l = {.tree = tree};
    size_t longest = 0;
    for (size_t i = 0; i < tree->devices; i++) {
        size_t n = text_columns(tree->device[i]);
        longest = n > longest ? n : longest;
    }
    l.device_width = (int)(longest > NAME_MOST ? NAME_MOST : longest) * CHARACTER + 10;
    TRY(choose_nodes(&l, style && style->width ? style->width : FIGURE_WIDTH));
    tree_place_nodes(&l);
    struct figure_geometry g = {.width = LEFT + l.node[0].width + MARGIN,
                                .style = style,
                                .left = LEFT,
                                .right = MARGIN,
                                .top = MARGIN,
                                .bottom = MARGIN};
    g.width = g.width < figure_width(style) ? figure_width(style) : g.width;
    l.top = MARGIN + figure_title_height(&g);
    g.height = tree_row_of(&l, 0) + BOX + FIGURE_LINE;
    TRY(figure_open(output, &g, by, &f));
    tree_put_table(f.table, tree);
    for (size_t i = 1; i < l.n; i++)
        tree_put_link(f.script, &g, &l, &l.node[i]);
    for (size_t i = 0; i < l.n; i++)
        tree_put_node(f.script, &g, &l, &l.node[i]);
    for (size_t level = 0; level <= tree->levels; level++)
        put_level(f.script, &g, &l, level);
    fprintf(f.script, "set style textbox opaque fillcolor rgb '#FFFFFF' noborder margins 0.4,0.4\n"
                      "unset border\nunset tics\nunset key\nset xrange [0:1]\nset yrange [0:1]\n"
                      "plot NaN\n");
    TRY(figure_finish(&f));
out:
    figure_discard(&f);
    free(l.node);
    free(l.shown);
    return st;
}
