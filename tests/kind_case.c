/* Cases of layer kinds. */
#include "tests/kind_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/random.h"
#include "tests/cmocka.h"

static const double tolerance = 1e-5, close_to = 1e-9;

int64_t from_to(struct draw *d, int64_t low, int64_t high)
{
    return low + (int64_t)(random_at(d->key, d->n++) % (uint64_t)(high - low + 1));
}

void check(struct graph *g, uint64_t k, naive y)
{
    struct model m = {0};
    if (graph_finish(g, "case", NULL, &m) != STATUS_OK)
        fail_msg("case %llu: %s", (unsigned long long)k, error_message());
    uint32_t op = (uint32_t)m.n - 1;
    struct call *c = new_call(&m, op);
    const struct layer *l = &c->layer;
    double worst = worst_of_call(c), far = 0;
    call_loss(c);
    for (size_t row = 0; row < CALL_B * l->tokens; row++)
        for (size_t i = 0; i < l->out; i++) {
            double expected = y(c, row, i), found = (double)c->y[row * l->out + i];
            far = fmax(far, fabs(found - expected) / (1 + fabs(expected)));
        }
    if (!(far < close_to) || !(worst < tolerance))
        fail_msg("case %llu, %s: forward %g off, gradient %g", (unsigned long long)k, m.op[op].kind,
                 far, worst);
    free(c);
    model_free(&m);
}

struct graph begin(void)
{
    return (struct graph){.model = {.element_bytes = 4}};
}

uint32_t source(struct graph *g, int64_t tokens, int64_t channels)
{
    char name[32];
    snprintf(name, sizeof name, "source%zu", g->model.n);
    return layer_embedding(
        g, name,
        &(struct embedding_shape){.tokens = tokens, .channels = channels, .vocabulary = 256});
}

double act(bool tanh_form, double x)
{
    return tanh_form ? 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)))
                     : x / (1 + exp(-x));
}
