/* Strategies as JSON files. */
#include "core/base/json.h"
#include "papers/hidup/strategy.h"

#include <string.h>

static const char format[] = "foreline-strategy";
enum { VERSION = 1 };

static const char *strategy_file_maker(const struct spmd_graph *g, uint32_t tensor)
{
    return g->node[g->tensor[tensor].node].name;
}

static void strategy_file_put_stage(struct json_writer *w, const struct spmd_graph *g,
                                    const struct spmd_strategy *s, const struct spmd_stage *stage)
{
    char letters[SPMD_LETTERS];
    json_open_object(w, NULL, false);
    json_open_array(w, "communications", false);
    for (size_t i = 0; i < stage->moves; i++) {
        const struct spmd_move *move = &stage->move[i];
        json_open_object(w, NULL, true);
        json_put_string(w, "tensor", strategy_file_maker(g, move->tensor));
        json_put_integer(w, "output", move->tensor - g->node[g->tensor[move->tensor].node].made);
        json_put_string(w, "from", form_name(move->from));
        json_put_string(w, "to", form_name(move->to));
        json_close(w);
    }
    json_close(w);
    json_open_array(w, "computations", false);
    for (uint32_t n = stage->first; n < stage->first + stage->nodes; n++) {
        json_open_object(w, NULL, true);
        json_put_string(w, "node", g->node[n].name);
        json_put_string(w, "forms", spmd_letters(&g->node[n], &s->chosen[n], letters));
        json_close(w);
    }
    json_close(w);
    json_close(w);
}

void spmd_put(const struct spmd_graph *g, const struct spmd_strategy *s,
              const struct provenance *by, FILE *to)
{
    struct json_writer w = {.stream = to};
    json_put_header(&w, format, VERSION, by);
    json_put_string(&w, "model", s->model);
    json_open_array(&w, "stages", false);
    for (size_t i = 0; i < s->stages; i++)
        strategy_file_put_stage(&w, g, s, &s->stage[i]);
    json_close(&w);
    json_close(&w);
}

enum status spmd_choose(const struct spmd_node *n, const char *letters, struct spmd_signature *out)
{
    char own[SPMD_LETTERS];
    for (size_t i = 0; i < n->signatures; i++)
        if (!strcmp(spmd_letters(n, &n->signature[i], own), letters)) {
            *out = n->signature[i];
            return STATUS_OK;
        }
    return error_set(STATUS_INVALID, "node '%s' (%s) has no signature '%.40s'", n->name, n->op,
                     letters);
}

/* The next node of the graph, which is the one at `at`. */
static enum status strategy_file_get_node(const struct json_at *at, const struct spmd_graph *g,
                                          struct spmd_strategy *s, uint32_t node)
{
    struct json_at name, forms;
    const char *text;
    PASS(json_check_keys(at, "node forms", JSON_TABLES(NULL)));
    PASS(json_field(at, "node", &name));
    PASS(json_get_string(&name, &text));
    if (node >= g->nodes || strcmp(text, g->node[node].name) != 0)
        return json_error(&name, "got node '%.60s', expected %s%s%s as the next one", text,
                          node < g->nodes ? "'" : "",
                          node < g->nodes ? g->node[node].name : "the end",
                          node < g->nodes ? "'" : "");
    PASS(json_field(at, "forms", &forms));
    PASS(json_get_string(&forms, &text));
    if (spmd_choose(&g->node[node], text, &s->chosen[node]) != STATUS_OK)
        return json_error(&forms, "%s", error_message());
    return STATUS_OK;
}

static enum status get_nodes(const struct json_at *stages, const struct spmd_graph *g,
                             struct spmd_strategy *s)
{
    uint32_t node = 0;
    for (size_t i = 0; i < s->stages; i++) {
        struct json_at stage = json_item(stages, i), list, item;
        size_t n;
        PASS(json_check_keys(&stage, "communications computations", JSON_TABLES(NULL)));
        PASS(json_field(&stage, "computations", &list));
        PASS(json_get_array(&list, SPMD_NODES, &n));
        if (n == 0)
            return json_error(&list, "stage has no computations");
        s->stage[i] = (struct spmd_stage){.first = node, .nodes = (uint32_t)n};
        for (size_t k = 0; k < n; k++) {
            item = json_item(&list, k);
            PASS(strategy_file_get_node(&item, g, s, node++));
        }
    }
    if (node < g->nodes)
        return json_error(stages, "the strategy ends before node '%s' of the model",
                          g->node[node].name);
    return STATUS_OK;
}

static bool strategy_file_same(const char *text, const char *other)
{
    return !strcmp(text, other);
}

/* Communications say nothing that computations do not; a file in which they differ was edited. */
static enum status check_move(const struct json_at *at, const struct spmd_graph *g,
                              const struct spmd_move *move)
{
    struct json_at field;
    const char *tensor, *from, *to;
    int64_t output = 0;
    PASS(json_check_keys(at, "tensor output from to", JSON_TABLES(NULL)));
    PASS(json_field(at, "tensor", &field));
    PASS(json_get_string(&field, &tensor));
    PASS(json_field(at, "from", &field));
    PASS(json_get_string(&field, &from));
    PASS(json_field(at, "to", &field));
    PASS(json_get_string(&field, &to));
    PASS(json_may_integer(at, "output", 0, SPMD_MAKES, &output));
    uint32_t made = g->node[g->tensor[move->tensor].node].made;
    if (!strategy_file_same(tensor, strategy_file_maker(g, move->tensor)) ||
        output != move->tensor - made || !strategy_file_same(from, form_name(move->from)) ||
        !strategy_file_same(to, form_name(move->to)))
        return json_error(
            at, "expected the conversion of '%s' from %s to %s, which the computations need",
            strategy_file_maker(g, move->tensor), form_name(move->from), form_name(move->to));
    return STATUS_OK;
}

static enum status check_moves(const struct json_at *stages, const struct spmd_graph *g,
                               const struct spmd_strategy *s)
{
    for (size_t i = 0; i < s->stages; i++) {
        struct json_at stage = json_item(stages, i), list, item;
        size_t n;
        PASS(json_field(&stage, "communications", &list));
        PASS(json_get_array(&list, SPMD_NODES * SPMD_READS, &n));
        if (n != s->stage[i].moves)
            return json_error(&list,
                              "got %zu communications, expected the %zu that the computations need",
                              n, s->stage[i].moves);
        for (size_t k = 0; k < n; k++) {
            item = json_item(&list, k);
            PASS(check_move(&item, g, &s->stage[i].move[k]));
        }
    }
    return STATUS_OK;
}

enum status spmd_read(const struct json_document *d, const struct spmd_graph *g, const char *model,
                      struct arena *memory, struct spmd_strategy *out)
{
    struct json_at root = json_root(d), field, stages;
    struct spmd_strategy s = {.model = model};
    const char *text;
    PASS(json_check_format(d, format, VERSION));
    PASS(json_check_keys(&root, "model stages", JSON_TABLES(NULL)));
    PASS(json_field(&root, "model", &field));
    PASS(json_get_string(&field, &text));
    if (strcmp(text, model) != 0)
        return json_error(&field, "the strategy is for model '%.80s', expected '%.80s'", text,
                          model);
    PASS(json_field(&root, "stages", &stages));
    PASS(json_get_array(&stages, SPMD_NODES, &s.stages));
    PASS(ARENA_NEW(memory, s.chosen, g->nodes));
    PASS(ARENA_NEW(memory, s.stage, s.stages));
    PASS(get_nodes(&stages, g, &s));
    if (spmd_complete(g, memory, &s) != STATUS_OK)
        return json_error(&stages, "%s", error_message());
    PASS(check_moves(&stages, g, &s));
    *out = s;
    return STATUS_OK;
}
