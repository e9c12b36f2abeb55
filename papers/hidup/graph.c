/* Building graphs of operators node by node, and restricting their signatures by hints. */
#include "papers/hidup/graph.h"

#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

enum { HINT = 128 };

void spmd_add(struct spmd_graph *g, enum spmd_kind kind, const char *op, const char *name,
              const uint32_t *read, size_t n)
{
    char full[SPMD_NAME];
    struct spmd_node node = {.op = op, .kind = kind, .reads = (uint32_t)n};
    if (g->status != STATUS_OK)
        return;
    snprintf(full, sizeof full, "%s%.31s", g->prefix, name);
    if (g->nodes == SPMD_NODES)
        g->status =
            error_set(STATUS_UNSUPPORTED, "%s: the model has more than %d nodes", full, SPMD_NODES);
    else if (n > SPMD_READS)
        g->status = error_set(STATUS_UNSUPPORTED, "%s: node reads %zu tensors, expected at most %d",
                              full, n, SPMD_READS);
    else if (!(node.name = arena_text(&g->memory, full)))
        g->status = STATUS_NOMEM;
    else
        g->status = ARENA_ROOM(&g->memory, g->node, g->nodes);
    if (g->status != STATUS_OK)
        return;
    for (size_t i = 0; i < n; i++)
        node.read[i] = read[i];
    node.made = (uint32_t)g->tensors;
    g->node[g->nodes++] = node;
}

uint32_t spmd_make(struct spmd_graph *g, size_t rank, const int64_t *size)
{
    if (g->status == STATUS_OK)
        g->status = ARENA_ROOM(&g->memory, g->tensor, g->tensors);
    if (g->status != STATUS_OK)
        return 0;
    struct spmd_tensor t = {.node = (uint32_t)g->nodes - 1, .rank = (uint32_t)rank};
    t.last = t.node;
    for (size_t i = 0; i < rank; i++)
        t.size[i] = size[i];
    g->node[g->nodes - 1].makes++;
    g->tensor[g->tensors] = t;
    return (uint32_t)g->tensors++;
}

/* Signatures are few and fixed when a graph is built: letters are our own, and what they say is
 * asserted by the tests of all operators. */
void spmd_sign(struct spmd_graph *g, const char *letters)
{
    if (g->status != STATUS_OK)
        return;
    struct spmd_node *n = &g->node[g->nodes - 1];
    struct spmd_signature s = {{0}, {0}};
    const char *arrow = strchr(letters, '>');
    if (!arrow || (size_t)(arrow - letters) != n->reads || strcspn(arrow + 1, " ") != n->makes) {
        g->status = error_set(STATUS_INVALID,
                              "node '%s': got signature '%s', expected %u inputs and %u outputs",
                              n->name, letters, n->reads, n->makes);
        return;
    }
    for (size_t i = 0; i < n->reads; i++)
        s.read[i] = form_of_letter(letters[i]);
    for (size_t i = 0; i < n->makes; i++)
        s.made[i] = form_of_letter(arrow[1 + i]);
    if ((g->status = ARENA_ROOM(&g->memory, n->signature, n->signatures)) == STATUS_OK)
        n->signature[n->signatures++] = s;
}

void spmd_sign_all(struct spmd_graph *g, const char *list)
{
    char one[SPMD_LETTERS];
    for (size_t length; *list; list += length + (list[length] == ' ')) {
        length = strcspn(list, " ");
        snprintf(one, sizeof one, "%.*s", (int)length, list);
        spmd_sign(g, one);
    }
}

void spmd_argue(struct spmd_graph *g, int64_t argument)
{
    if (g->status == STATUS_OK)
        g->node[g->nodes - 1].argument[g->node[g->nodes - 1].arguments++] = argument;
}

void spmd_work(struct spmd_graph *g, double flop)
{
    if (g->status == STATUS_OK)
        g->node[g->nodes - 1].flop = flop;
}

void spmd_product(struct spmd_graph *g, double pairs)
{
    spmd_work(g, 3 * pairs);
    if (g->status == STATUS_OK)
        g->node[g->nodes - 1].product = true;
}

double spmd_elements(const struct spmd_graph *g, uint32_t tensor)
{
    double n = 1;
    for (size_t i = 0; i < g->tensor[tensor].rank; i++)
        n *= (double)g->tensor[tensor].size[i];
    return n;
}

double spmd_bytes(const struct spmd_graph *g, uint32_t tensor)
{
    return (double)data_type_bytes(spmd_dtype(g)) * spmd_elements(g, tensor);
}

const char *spmd_letters(const struct spmd_node *n, const struct spmd_signature *s,
                         char text[SPMD_LETTERS])
{
    size_t used = 0;
    for (size_t i = 0; i < n->reads; i++)
        text[used++] = form_letter(s->read[i]);
    text[used++] = '>';
    for (size_t i = 0; i < n->makes; i++)
        text[used++] = form_letter(s->made[i]);
    text[used] = '\0';
    return text;
}

bool spmd_is_whole(const struct spmd_node *n, const struct spmd_signature *s)
{
    bool whole = true;
    for (size_t i = 0; i < n->reads; i++)
        whole = whole && !form_is_gather(s->read[i]);
    for (size_t i = 0; i < n->makes; i++)
        whole = whole && !form_is_gather(s->made[i]);
    return whole;
}

static void sign_full(struct spmd_graph *g, struct spmd_node *n)
{
    struct spmd_signature full = {{FORM_FULL}, {FORM_FULL}};
    if ((g->status = ARENA_ROOM(&g->memory, n->signature, n->signatures)) == STATUS_OK)
        n->signature[n->signatures++] = full;
}

enum status spmd_finish(struct spmd_graph *g)
{
    for (uint32_t i = 0; i < g->nodes && g->status == STATUS_OK; i++) {
        struct spmd_node *n = &g->node[i];
        for (size_t k = 0; k < n->reads; k++)
            g->tensor[n->read[k]].last = i;
        if (n->kind == SPMD_FUNCTION)
            sign_full(g, n);
    }
    return g->status;
}

void spmd_graph_free(struct spmd_graph *g)
{
    arena_free(&g->memory);
    *g = (struct spmd_graph){0};
}

/* ---- hints */

/* Forms behind '=' as bits; 0: a word is none. */
static uint32_t forms_of(char *words)
{
    uint32_t forms = 0;
    for (char *word = words, *next; word; word = next) {
        next = strchr(word, '+');
        if (next)
            *next++ = '\0';
        uint8_t form = word[0] && !word[1] ? form_of_letter(word[0]) : form_of_name(word);
        if (form == FORM_NONE)
            return 0;
        forms |= 1u << form;
    }
    return forms;
}

static bool hidup_graph_makes(const struct spmd_node *n, const struct spmd_signature *s,
                              uint32_t forms)
{
    for (size_t i = 0; i < n->makes; i++)
        if (!(forms >> s->made[i] & 1))
            return false;
    return true;
}

/* "full, gather 0, ...": what the node's first tensor can be. */
static const char *possible(const struct spmd_node *n, char text[HINT])
{
    uint32_t seen = 0;
    text[0] = '\0';
    for (size_t i = 0; i < n->signatures; i++) {
        uint8_t form = n->signature[i].made[0];
        size_t used = strlen(text);
        if (!(seen >> form & 1))
            snprintf(text + used, HINT - used, "%s%s", used ? ", " : "", form_name(form));
        seen |= 1u << form;
    }
    return text;
}

enum status spmd_restrict(struct spmd_graph *g, const char *hint)
{
    char text[HINT], list[HINT], *equals;
    uint32_t forms;
    struct spmd_node *n = NULL;
    snprintf(text, sizeof text, "%s", hint);
    if (!(equals = strchr(text, '=')) || strlen(hint) >= sizeof text)
        return error_set(STATUS_USAGE, "--hint: got '%.60s', expected NODE=LAYOUT", hint);
    *equals = '\0';
    for (size_t i = 0; i < g->nodes; i++)
        n = strcmp(g->node[i].name, text) ? n : &g->node[i];
    if (!n)
        return error_set(STATUS_USAGE, "--hint %.60s: unknown node '%.60s'", hint, text);
    if (!(forms = forms_of(equals + 1)))
        return error_set(STATUS_USAGE,
                         "--hint %.60s: unknown layout; known: full, reduce, replicate, gather D",
                         hint);
    size_t kept = 0;
    if (n->kind == SPMD_ADAPTIVE || n->makes == 0)
        return error_set(
            STATUS_USAGE,
            "--hint %.60s: the layout of node '%s' follows from its inputs, so it cannot be chosen",
            hint, n->name);
    possible(n, list);
    for (size_t i = 0; i < n->signatures; i++)
        if (hidup_graph_makes(n, &n->signature[i], forms))
            n->signature[kept++] = n->signature[i];
    n->signatures = kept;
    return kept > 0 ? STATUS_OK
                    : error_set(STATUS_INFEASIBLE,
                                "--hint %.60s: node '%s' (%s) supports only the layouts %s", hint,
                                n->name, n->op, list);
}

/* ---- what can be executed */

static enum status divide_heads(const struct spmd_graph *g, struct spmd_node *n, size_t devices)
{
    long long heads = n->argument[0], channels = g->tensor[n->read[0]].size[2];
    size_t kept = 0;
    if (heads < 1 || channels % heads != 0)
        return error_set(STATUS_INVALID,
                         "node '%s': %lld heads do not divide the %lld channels; change heads=",
                         n->name, heads, channels);
    for (size_t i = 0; i < n->signatures; i++)
        if ((size_t)heads % devices == 0 || !form_is_gather(n->signature[i].read[1]))
            n->signature[kept++] = n->signature[i];
    n->signatures = kept;
    return kept > 0 ? STATUS_OK
                    : error_set(STATUS_INFEASIBLE,
                                "node '%s': %lld heads do not divide over %zu devices", n->name,
                                heads, devices);
}

enum status spmd_divide(struct spmd_graph *g, size_t devices)
{
    for (size_t i = 0; i < g->nodes; i++) {
        struct spmd_node *n = &g->node[i];
        if (!strcmp(n->op, "attention"))
            PASS(divide_heads(g, n, devices));
        if (!strcmp(n->op, "gate") && n->argument[0] > g->tensor[n->read[1]].size[1])
            return error_set(
                STATUS_INVALID,
                "node '%s': got top=%lld experts per token, but the layer has only %lld experts",
                n->name, (long long)n->argument[0], (long long)g->tensor[n->read[1]].size[1]);
    }
    return STATUS_OK;
}
