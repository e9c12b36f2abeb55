/* Layers of mixtures of experts: the router, and the experts themselves; formulas of layers.h. */
#include "model/layers.h"

/* Operations per score: softmax (maximum, difference, exponential, sum, quotient) and top_k
 * comparisons; backward of the softmax: product, sum, difference, product. */
enum { GATE_FORWARD = 5, GATE_BACKWARD = 4 };

/* Operations per number of a row times the sigmoid of a product: product and sum, scaling;
 * backward: the scaling, and products for the gradients of the sigmoid, the row and the weights. */
enum { TOKEN_GATE_FORWARD = 3, TOKEN_GATE_BACKWARD = 7 };

int64_t layer_slots(const struct experts_shape *s)
{
    int64_t all = s->tokens * s->top_k; /* of a sample */
    if (s->capacity == 0)
        return all;
    int64_t share = s->group * all * s->capacity, parts = 100 * s->experts;
    int64_t slots = (share + parts - 1) / parts * s->experts; /* of the group */
    return (slots + s->group - 1) / s->group;
}

/* Numbers of a sample's part of a mask; by index, a place and a weight for each choice. */
static int64_t mask_size(const struct experts_shape *s)
{
    return s->einsum ? s->tokens * layer_slots(s) * s->group : 2 * s->tokens * s->top_k;
}

uint32_t layer_gate(struct graph *g, const char *name, uint32_t in, const struct experts_shape *s)
{
    int64_t e = g->model.element_bytes, read = s->tokens * s->channels;
    int64_t scores = s->tokens * s->experts, mask = mask_size(s);
    int64_t biases = s->router_bias || s->correction ? s->experts : 0;
    double work = 2.0 * (double)read * (double)s->experts;
    struct graph_op op = {
        .name = name,
        .kind = "gate",
        .attribute = {{"tokens", s->tokens},
                      {"channels", s->channels},
                      {"experts", s->experts},
                      {"top_k", s->top_k}},
        .inputs = 1,
        .input = {in},
        .forward_flop = work + (double)((GATE_FORWARD + s->top_k) * scores),
        .backward_flop = 2 * work + (double)(GATE_BACKWARD * scores),
        .forward_bytes = (double)((read + 2 * scores + mask) * e),
        .backward_bytes = (double)((2 * read + 3 * scores + mask) * e),
        .parameter_bytes = (s->channels * s->experts + biases) * e,
        .shares = MODEL_NO_OP,
        .stash_bytes = (mask + scores) * e,
        .output_bytes = mask * e,
    };
    const struct graph_attribute rest[] = {{"over_all", s->over_all},
                                           {"einsum", s->einsum},
                                           {"sigmoid", s->sigmoid},
                                           {"bias", s->router_bias},
                                           {"correction", s->correction},
                                           {"groups", s->groups > 1 ? s->groups : 0},
                                           {"group_top", s->groups > 1 ? s->group_top : 0},
                                           {"scale", s->scale == 1000 ? 0 : s->scale}};
    struct graph_attribute *a = op.attribute + 4;
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        if (rest[i].value != 0)
            *a++ = rest[i];
    return graph_add(g, &op);
}

uint32_t layer_token_gate(struct graph *g, const char *name, uint32_t branch, uint32_t in,
                          int64_t tokens, int64_t channels)
{
    int64_t e = g->model.element_bytes, size = tokens * channels;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "token_gate",
                            .attribute = {{"tokens", tokens}, {"channels", channels}},
                            .inputs = 2,
                            .input = {branch, in},
                            .forward_flop = (double)(TOKEN_GATE_FORWARD * size),
                            .backward_flop = (double)(TOKEN_GATE_BACKWARD * size),
                            .forward_bytes = (double)((3 * size + tokens) * e),
                            .backward_bytes = (double)((5 * size + tokens) * e),
                            .parameter_bytes = channels * e,
                            .shares = MODEL_NO_OP,
                            .stash_bytes = (size + tokens) * e,
                            .output_bytes = size * e,
                        });
}

/* What the inside of an expert consists of, per slot: products of (channels, inner) matrices, and
 * numbers that are as wide as `inner`. */
struct inside {
    int64_t matrices, rows;
    double forward, backward; /* operations of the activation per number */
};

static struct inside experts_inner_work(const struct experts_shape *s)
{
    return s->gated ? (struct inside){3, 3, GATED_FORWARD, GATED_BACKWARD}
                    : (struct inside){2, 2, GELU_FORWARD, GELU_BACKWARD};
}

uint32_t layer_experts(struct graph *g, const char *name, uint32_t in, uint32_t gate,
                       const struct experts_shape *s)
{
    const struct inside i = experts_inner_work(s);
    int64_t e = g->model.element_bytes, c = s->channels, h = s->inner;
    int64_t slots = layer_slots(s), size = s->tokens * c, mask = mask_size(s);
    int64_t biases = s->unbiased ? 0 : (i.matrices - 1) * h + c;
    double products = 2.0 * (double)(i.matrices * slots) * (double)c * (double)h;
    /* dispatch or combine: a product over the slots of the group, or a weight for each choice */
    double route = s->einsum ? 2.0 * (double)mask * (double)c : (double)(s->top_k * size);
    int64_t passes =
        slots * (i.matrices * (c + h)); /* every product reads and writes its operands */
    return graph_add(
        g, &(struct graph_op){
               .name = name,
               .kind = "experts",
               .attribute = {{"tokens", s->tokens},
                             {"channels", c},
                             {"inner", h},
                             {"experts", s->experts},
                             {"top_k", s->top_k},
                             {"slots", slots},
                             {"group", s->group},
                             {"einsum", s->einsum},
                             {s->gated      ? "gated"
                              : s->unbiased ? NULL
                                            : "bias",
                              1},
                             {s->gated && !s->unbiased ? "bias" : NULL, 1},
                             {s->clamped ? "clamped" : NULL, 1}},
               .inputs = 2,
               .input = {in, gate},
               .forward_flop = products + i.forward * (double)(slots * h) + 2 * route,
               /* gradients of the tokens and, in the combine, of the weights */
               .backward_flop = 2 * products + i.backward * (double)(slots * h) + 3 * route,
               .forward_bytes = (double)((2 * size + passes + 2 * slots * (c + h) + 2 * mask) * e),
               .backward_bytes =
                   (double)((2 * size + 2 * passes + 3 * slots * (c + h) + 3 * mask) * e),
               .parameter_bytes = s->experts * (i.matrices * c * h + biases) * e,
               .shares = MODEL_NO_OP,
               .tensor = TENSOR_ROW, /* each expert by its inner width */
               .narrow = true,
               /* the mean of both ways: tokens go out as operands and come back as sums are kept.
                * DeepSeek-V3 (2024, arXiv:2412.19437), section 3.3.3 */
               .exchange_bytes = slots * c * (graph_operand(g) + e) / 2,
               /* rows of both products are kept as their operands, what they give as it is */
               .stash_bytes =
                   (size + slots * (c + (i.rows - 1) * h)) * e + slots * (c + h) * graph_operand(g),
               .output_bytes = size * e,
           });
}
