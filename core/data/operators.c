/* Operators on shards: in files, copied, checked. */
#include "core/data/operators.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/data/form.h"

enum { MOST = 1 << 16, LARGEST = 1 << 30 };
static const double most_numbers = 1e12; /* of a tensor */

/* ---- files */

static enum status get_form(const struct json_at *at, uint8_t *out)
{
    const char *text;
    PASS(json_get_string(at, &text));
    *out = form_of_name(text);
    return *out == FORM_NONE ? json_error(at, "unknown layout '%.20s'", text) : STATUS_OK;
}

static enum status get_tensor(const struct json_at *object, void *into)
{
    struct operators_tensor *t = into;
    struct json_at at;
    PASS(json_field(object, "size", &at));
    PASS(json_get_array(&at, OPERATORS_RANK, &t->rank));
    for (size_t d = 0; d < t->rank; d++) {
        struct json_at item = json_item(&at, d);
        PASS(json_get_integer(&item, 1, LARGEST, &t->size[d]));
    }
    PASS(json_field(object, "form", &at));
    PASS(get_form(&at, &t->form));
    PASS(json_optional(object, "to", &at));
    t->to = FORM_NONE;
    return at.value ? get_form(&at, &t->to) : STATUS_OK;
}

static void put_tensor(struct json_writer *w, const void *from)
{
    const struct operators_tensor *t = from;
    json_open_array(w, "size", true);
    for (size_t d = 0; d < t->rank; d++)
        json_put_integer(w, NULL, t->size[d]);
    json_close(w);
    json_put_string(w, "form", form_name(t->form));
    if (t->to != FORM_NONE)
        json_put_string(w, "to", form_name(t->to));
}

static enum status get_node(const struct json_at *object, void *into)
{
    struct operators_node *n = into;
    struct json_at at;
    size_t forms;
    int64_t tensor;
    PASS(json_field(object, "reads", &at));
    PASS(json_get_array(&at, OPERATORS_READS, &n->reads));
    for (size_t k = 0; k < n->reads; k++) {
        struct json_at item = json_item(&at, k);
        PASS(json_get_integer(&item, 0, MOST, &tensor));
        n->read[k] = (uint32_t)tensor;
    }
    PASS(json_field(object, "forms", &at));
    PASS(json_get_array(&at, OPERATORS_READS, &forms));
    if (forms != n->reads)
        return json_error(&at, "got %zu layouts, expected %zu (one per tensor)", forms, n->reads);
    for (size_t k = 0; k < forms; k++) {
        struct json_at item = json_item(&at, k);
        PASS(get_form(&item, &n->form[k]));
    }
    PASS(json_optional(object, "arguments", &at));
    if (!at.value)
        return STATUS_OK;
    PASS(json_get_array(&at, OPERATORS_ARGUMENTS, &n->arguments));
    for (size_t k = 0; k < n->arguments; k++) {
        struct json_at item = json_item(&at, k);
        PASS(json_get_integer(&item, 0, LARGEST, &n->argument[k]));
    }
    return STATUS_OK;
}

static void operators_put_node(struct json_writer *w, const void *from)
{
    const struct operators_node *n = from;
    json_open_array(w, "reads", true);
    for (size_t k = 0; k < n->reads; k++)
        json_put_integer(w, NULL, n->read[k]);
    json_close(w);
    json_open_array(w, "forms", true);
    for (size_t k = 0; k < n->reads; k++)
        json_put_string(w, NULL, form_name(n->form[k]));
    json_close(w);
    if (n->arguments == 0)
        return;
    json_open_array(w, "arguments", true);
    for (size_t k = 0; k < n->arguments; k++)
        json_put_integer(w, NULL, n->argument[k]);
    json_close(w);
}

static const struct json_row tensor_rows[] = {
    {"size", .read = get_tensor, .write = put_tensor, .also = "form to"},
    {"step", JSON_MEMBER(struct operators_tensor, step), FIELD_SPARE, .max = MOST},
    {0},
};

static const struct json_row node_rows[] = {
    {"name", JSON_MEMBER(struct operators_node, name), FIELD_NEED},
    {"kind", JSON_MEMBER(struct operators_node, kind), FIELD_NEED},
    {"step", JSON_MEMBER(struct operators_node, step), FIELD_NEED, .max = MOST},
    {"reads", .read = get_node, .write = operators_put_node, .also = "forms arguments"},
    {"makes", JSON_MEMBER(struct operators_node, makes), FIELD_NEED, .max = OPERATORS_MAKES},
    {0},
};

static const struct json_row rows[] = {
    {"tensors", JSON_MEMBER(struct operators, tensor), FIELD_NEED, .max = MOST, .rows = tensor_rows,
     .size = sizeof(struct operators_tensor), .count = offsetof(struct operators, tensors),
     .flat = true},
    {"nodes", JSON_MEMBER(struct operators, node), FIELD_NEED, .max = MOST, .rows = node_rows,
     .size = sizeof(struct operators_node), .count = offsetof(struct operators, nodes),
     .flat = true},
    {0},
};

enum status operators_get(const struct json_at *root, struct operators *out)
{
    enum status st;
    struct operators o = {0};
    struct json_at at;
    uint32_t made = 0;
    PASS(json_optional(root, "operators", &at));
    if (!at.value)
        return STATUS_OK;
    TRY(json_check_keys(&at, "", JSON_TABLES(rows)));
    TRY(json_rows_read(&at, rows, &o));
    for (size_t i = 0; i < o.nodes; made += o.node[i++].makes)
        o.node[i].made = made;
    st = operators_check(&o);
    if (st != STATUS_OK) {
        st = json_error(&at, "%s", error_message());
        goto out;
    }
    MOVE(out, o);
out:
    operators_free(&o);
    return st;
}

void operators_put(struct json_writer *w, const struct operators *o)
{
    if (o->nodes == 0)
        return;
    json_open_object(w, "operators", false);
    json_rows_write(w, rows, o);
    json_close(w);
}

/* ---- in memory */

static enum status check_tensor(const struct operators *o, const struct operators_node *n,
                                uint32_t tensor)
{
    const struct operators_tensor *t = &o->tensor[tensor];
    struct form_conversion conversion;
    double numbers = 1;
    for (size_t d = 0; d < t->rank; d++)
        numbers *= (double)t->size[d];
    if (numbers > most_numbers)
        return error_set(STATUS_INVALID, "tensor %u has %g elements, expected at most %g", tensor,
                         numbers, most_numbers);
    for (int k = 0; k < 2; k++) {
        uint8_t form = k == 0 ? t->form : t->to;
        if (form_is_gather(form) && (size_t)(form - FORM_GATHER) >= t->rank)
            return error_set(STATUS_INVALID, "tensor %u has %zu dimensions, too few for layout %s",
                             tensor, (size_t)t->rank, form_name(form));
    }
    if (t->to == FORM_NONE)
        return STATUS_OK;
    if (t->to == t->form || !form_convert(t->form, t->to, &conversion))
        return error_set(STATUS_INVALID,
                         "tensor %u cannot be converted from layout %s to layout %s", tensor,
                         form_name(t->form), form_name(t->to));
    return t->step > n->step ? STATUS_OK
                             : error_set(STATUS_INVALID,
                                         "tensor %u is converted in step %u, expected a step after "
                                         "%u, which produces it",
                                         tensor, t->step, n->step);
}

static enum status check_node(const struct operators *o, const struct operators_node *n)
{
    for (size_t k = 0; k < n->reads; k++) {
        if (n->read[k] >= n->made)
            return error_set(STATUS_INVALID, "node '%s' reads tensor %u before a node produces it",
                             n->name, n->read[k]);
        const struct operators_tensor *t = &o->tensor[n->read[k]];
        bool has = n->form[k] == t->form || (n->form[k] == t->to && n->step >= t->step);
        if (!has || n->form[k] == FORM_REPLICATE)
            return error_set(STATUS_INVALID,
                             "node '%s' reads tensor %u in layout %s, but the tensor is not in "
                             "that layout at this step",
                             n->name, n->read[k], form_name(n->form[k]));
    }
    for (uint32_t k = 0; k < n->makes; k++)
        PASS(check_tensor(o, n, n->made + k));
    return STATUS_OK;
}

enum status operators_check(const struct operators *o)
{
    size_t made = 0;
    for (size_t i = 0; i < o->nodes; i++)
        made += o->node[i].makes;
    if (made != o->tensors)
        return error_set(STATUS_INVALID,
                         "the nodes produce %zu tensors, but the list of tensors has %zu", made,
                         o->tensors);
    for (size_t i = 0; i < o->nodes; i++) {
        if (i > 0 && o->node[i].step < o->node[i - 1].step)
            return error_set(STATUS_INVALID,
                             "node '%s' is in an earlier step than the node listed before it, "
                             "expected ascending steps",
                             o->node[i].name);
        PASS(check_node(o, &o->node[i]));
    }
    return STATUS_OK;
}

enum status operators_copy(const struct operators *o, struct operators *out)
{
    enum status st;
    struct operators c = {.tensors = o->tensors};
    TRY(ARRAY_COPY(c.tensor, o->tensor, o->tensors));
    TRY(ARRAY_NEW(c.node, o->nodes));
    for (size_t i = 0; i < o->nodes; i++) {
        struct operators_node *n = &c.node[c.nodes++];
        *n = o->node[i];
        n->name = n->kind = NULL;
        TRY(text_copy(o->node[i].name, &n->name));
        TRY(text_copy(o->node[i].kind, &n->kind));
    }
    MOVE(out, c);
out:
    operators_free(&c);
    return st;
}

void operators_free(struct operators *o)
{
    for (size_t i = 0; o->node && i < o->nodes; i++) {
        free(o->node[i].name);
        free(o->node[i].kind);
    }
    free(o->node);
    free(o->tensor);
    *o = (struct operators){0};
}
