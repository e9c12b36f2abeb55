/* What ranks begin with: parameters and masks. */
#include <string.h>

#include "core/base/random.h"
#include "exec/device/sharded/sharded.h"

static const double forbidden = -1e9; /* what a mask adds to scores of later tokens */

void sharded_draw(uint64_t key, const struct view *v, const struct start *from, real *to)
{
    for (size_t i = 0; i < v->n; i++)
        to[i] = (real)(from->base + from->spread * (2 * random_unit(key, view_index(v, i)) - 1));
}

/* Tokens look at those before them. */
static void draw_mask(const struct view *v, real *to)
{
    for (size_t i = 0; i < v->n; i++) {
        size_t at = view_index(v, i), columns = v->whole[v->rank - 1];
        to[i] = at % columns > at / columns ? (real)forbidden : 0;
    }
}

real *sharded_draws(struct sharded *s, const struct operand *o)
{
    return s->drawn ? s->drawn : o->value;
}

void sharded_drew(struct sharded *s, const struct operand *o)
{
    const struct memory *m = &s->on->memory;
    if (s->drawn)
        m->backend->copy(m->self, o->value, s->drawn, o->view.n * sizeof(real));
}

struct start sharded_start_of(const struct sharded *s, uint32_t tensor)
{
    for (size_t i = 0; i < s->all->nodes; i++)
        for (size_t k = 0; k < s->all->node[i].reads; k++)
            if (s->all->node[i].read[k] == tensor && s->kind[i] && s->kind[i]->start)
                return s->kind[i]->start(&s->call[0][i], k);
    return kind_numbers(0, 1);
}

void sharded_start(struct sharded *s)
{
    for (size_t i = 0; i < s->all->nodes; i++) {
        const struct operators_node *n = &s->all->node[i];
        struct operand *own = &s->slot[0][n->made].own;
        if (n->makes == 0 || !s->shared[n->made])
            continue;
        if (!strcmp(n->kind, "mask")) {
            draw_mask(&own->view, sharded_draws(s, own));
        } else {
            struct start from = sharded_start_of(s, n->made);
            uint64_t key = random_key(random_key(s->program->seed, STREAM_PARAMETERS), i);
            sharded_draw(key, &own->view, &from, sharded_draws(s, own));
        }
        sharded_drew(s, own);
    }
}
