/* Cells of flows that are equally fast: by hand, and on random networks, where flows of a cell must
 * have the max-min fair rate that the quotient says, whichever cells fly, unless a kind of them is
 * said to be faster. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/random.h"
#include "core/engine/symmetry.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/random_plan.h"

enum { FLOWS = 48, LINKS = 24, HOPS = 3, NETWORKS = 2000, FOLDED = 500, DIVIDED = 100 };

struct instance {
    struct sharing_network n;
    size_t start[FLOWS + 1];
    uint32_t link[FLOWS * HOPS];
    double weight[FLOWS * HOPS], bound[FLOWS], capacity[LINKS];
    uint64_t colour[FLOWS];
};

static void close_instance(struct instance *x, size_t flows, size_t links)
{
    for (size_t e = 0; e < x->start[flows]; e++)
        x->weight[e] = 1;
    x->n =
        (struct sharing_network){flows, links, x->start, x->link, x->weight, x->bound, x->capacity};
}

/* A small network several times, whose flows are then numbered anew; sometimes one flow more. */
static void make(struct instance *x, uint64_t *seed)
{
    uint32_t links = 1 + random_below(seed, 6), flows = 1 + random_below(seed, 6);
    uint32_t copies = 1 + random_below(seed, 4), hops[6], hop[6][HOPS], n = 0;
    for (uint32_t l = 0; l < links; l++)
        x->capacity[l] = 1 + random_below(seed, 3);
    for (uint32_t f = 0; f < flows; f++) {
        hops[f] = 1 + random_below(seed, HOPS);
        for (uint32_t k = 0; k < hops[f]; k++)
            hop[f][k] = random_below(seed, links);
    }
    for (uint32_t c = 0; c < copies; c++)
        for (uint32_t f = 0; f < flows; f++, n++) {
            uint32_t source = (f + c) % flows; /* not in the order of the copy before */
            for (uint32_t k = 0; k < hops[source]; k++)
                x->link[x->start[n] + k] = c * links + hop[source][k];
            x->start[n + 1] = x->start[n] + hops[source];
            x->bound[n] = 1 + source % 2;
            x->colour[n] = source % 3;
        }
    for (uint32_t l = 0; l < copies * links; l++)
        x->capacity[l] = x->capacity[l % links];
    if (random_below(seed, 3) == 0) {
        x->link[x->start[n]] = random_below(seed, copies * links);
        x->start[n + 1] = x->start[n] + 1;
        x->bound[n] = 1;
        x->colour[n++] = random_below(seed, 3);
    }
    close_instance(x, n, copies * links);
}

/* Max-min fair rates from the definition: all rise together until a link or a bound stops them. */
static void rates(const struct sharing_network *n, const bool *flies, double *rate)
{
    bool fixed[FLOWS];
    for (size_t f = 0; f < n->flows; f++) {
        fixed[f] = !flies[f];
        rate[f] = 0;
    }
    for (bool any = true; any;) {
        double raise = INFINITY, used[LINKS] = {0}, open[LINKS] = {0};
        any = false;
        for (size_t f = 0; f < n->flows; f++) {
            if (!fixed[f])
                raise = fmin(raise, n->bound_Bps[f] - rate[f]);
            for (size_t e = n->start[f]; e < n->start[f + 1]; e++) {
                used[n->link[e]] += n->weight[e] * rate[f];
                open[n->link[e]] += fixed[f] ? 0 : n->weight[e];
            }
        }
        for (size_t l = 0; l < n->links; l++)
            if (open[l] > 0)
                raise = fmin(raise, fmax(0, n->capacity_Bps[l] - used[l]) / open[l]);
        for (size_t f = 0; f < n->flows; f++)
            rate[f] += fixed[f] ? 0 : raise;
        for (size_t f = 0; f < n->flows; f++) {
            bool stop = rate[f] >= n->bound_Bps[f] * (1 - 1e-12);
            for (size_t e = n->start[f]; e < n->start[f + 1]; e++)
                stop = stop || used[n->link[e]] + open[n->link[e]] * raise >=
                                   n->capacity_Bps[n->link[e]] * (1 - 1e-12);
            fixed[f] = fixed[f] || stop;
            any = any || !fixed[f];
        }
    }
}

/* Which kinds of the cells that fly would be faster than their cell? True: some. */
static bool look(const struct symmetry *s, const bool *cell_flies, uint64_t *faster)
{
    struct sharing *sharing;
    assert_int_equal(sharing_open(&s->quotient, &sharing), STATUS_OK);
    sharing_watch(sharing,
                  &(struct sharing_kinds){s->kind_start, s->class_start, s->class_of, faster});
    for (uint32_t c = 0; c < s->cells; c++)
        if (cell_flies[c])
            sharing_start(sharing, c, 1, 0);
    (void)sharing_next(sharing);
    bool unequal = sharing_unequal(sharing) > 0;
    sharing_close(sharing);
    return unequal;
}

/* Do all flows that fly have the rate that the quotient gives their cell? */
static bool are_equal(const struct instance *x, const struct symmetry *s, const bool *flies,
                      const bool *cell_flies)
{
    double rate[FLOWS], cell_rate[FLOWS];
    rates(&x->n, flies, rate);
    rates(&s->quotient, cell_flies, cell_rate);
    for (size_t f = 0; f < x->n.flows; f++)
        if (!(fabs(rate[f] - cell_rate[s->cell[f]]) <= 1e-9))
            return false;
    return true;
}

/* Flows of some colours fly, and are divided until all of a cell are equally fast. Returns how
 * often cells were divided. */
static size_t divide(struct instance *x, const bool *flies, struct symmetry *s)
{
    for (size_t round = 0;; round++) {
        bool cell_flies[FLOWS] = {0};
        uint64_t faster[FLOWS] = {0};
        symmetry_free(s);
        assert_int_equal(symmetry_find(&x->n, x->colour, s), STATUS_OK);
        assert_int_equal(s->quotient.flows, s->cells);
        for (size_t f = 0; f < x->n.flows; f++) {
            assert_true(s->cell[f] < s->cells && s->kind[f] < s->kinds);
            assert_in_range(s->kind[f], s->kind_start[s->cell[f]],
                            s->kind_start[s->cell[f] + 1] - 1);
            cell_flies[s->cell[f]] = flies[f];
        }
        bool unequal = look(s, cell_flies, faster);
        assert_true(are_equal(x, s, flies, cell_flies) != unequal);
        if (!unequal)
            return round;
        for (size_t f = 0; f < x->n.flows; f++)
            x->colour[f] = random_key(x->colour[f], faster[s->kind[f]]);
    }
}

/* On random networks, whichever colours fly: the rates of the quotient are those of the whole if
 * and only if no kind would be faster; dividing by kinds comes to an end, with fewer cells than
 * flows. */
static void flows_of_a_cell_have_the_rate_of_the_quotient_or_are_divided(void **state)
{
    uint64_t seed = 1;
    size_t folded = 0, divided = 0;
    for (size_t k = 0; k < NETWORKS; k++) {
        struct instance x = {0};
        struct symmetry s = {0};
        bool flies[FLOWS], colour_flies[3];
        uint64_t given[FLOWS];
        make(&x, &seed);
        memcpy(given, x.colour, sizeof given);
        for (size_t c = 0; c < 3; c++)
            colour_flies[c] = random_below(&seed, 4) > 0;
        for (size_t f = 0; f < x.n.flows; f++)
            flies[f] = colour_flies[x.colour[f]];
        divided += divide(&x, flies, &s) > 0;
        folded += s.cells < x.n.flows;
        for (size_t f = 0; f < x.n.flows; f++)
            for (size_t g = 0; g < f; g++)
                assert_true(s.cell[f] != s.cell[g] || given[f] == given[g]);
        symmetry_free(&s);
    }
    print_message("%zu of %d networks folded, %zu divided\n", folded, NETWORKS, divided);
    assert_true(folded > FOLDED && divided > DIVIDED);
}

/* A ring of six flows over six links of their own, and a hub that all of them cross: one cell, two
 * classes, of weights 1 and 6. */
static void a_ring_around_a_hub_is_one_flow(void **state)
{
    struct instance x = {0};
    struct symmetry s = {0};
    for (uint32_t f = 0; f < 6; f++) {
        x.start[f + 1] = 2 * (f + 1);
        x.link[2 * f] = f;
        x.link[2 * f + 1] = 6;
        x.bound[f] = x.capacity[f] = 5;
    }
    x.capacity[6] = 12;
    close_instance(&x, 6, 7);
    assert_int_equal(symmetry_find(&x.n, x.colour, &s), STATUS_OK);
    assert_int_equal(s.cells, 1);
    assert_int_equal(s.classes, 2);
    assert_int_equal(s.start[1], 2);
    assert_true(s.weight[0] == 1 && s.capacity_Bps[s.link[0]] == 5);
    assert_true(s.weight[1] == 6 && s.capacity_Bps[s.link[1]] == 12);
    symmetry_free(&s);
    x.colour[2] = 1; /* two cells on the hub, two kinds of other links */
    assert_int_equal(symmetry_find(&x.n, x.colour, &s), STATUS_OK);
    assert_int_equal(s.cells, 2);
    assert_int_equal(s.classes, 3);
    symmetry_free(&s);
}

/* A chain in which every flow shares a link with the next one: its equitable partition has three
 * cells of mirror images, but all flows are stopped by a link that two of them cross. */
static void a_chain_is_one_cell_of_two_kinds(void **state)
{
    struct instance x = {0};
    struct symmetry s = {0};
    bool flies[FLOWS];
    for (uint32_t f = 0; f < 5; f++) {
        x.start[f + 1] = 2 * (f + 1);
        x.link[2 * f] = f;
        x.link[2 * f + 1] = f + 1;
        x.bound[f] = 1;
        flies[f] = true;
    }
    for (size_t l = 0; l < 6; l++)
        x.capacity[l] = 1;
    close_instance(&x, 5, 6);
    assert_int_equal(divide(&x, flies, &s), 0);
    assert_int_equal(s.cells, 1);
    assert_int_equal(s.classes, 2);
    assert_int_equal(s.kinds, 2);
    x.start[6] = 11; /* a second flow on the first link, which only its end of the chain crosses */
    x.link[10] = 0;
    x.bound[5] = 1;
    x.colour[5] = 1;
    x.capacity[0] = 0.5;
    flies[5] = true;
    close_instance(&x, 6, 6);
    assert_int_equal(divide(&x, flies, &s), 1); /* the first flow is slower; it is enough for the */
    assert_int_equal(s.cells, 3);               /* others to be on links that two of them fill */
    FOR_EACH_ALLOC_FAILURE((symmetry_free(&s), symmetry_find(&x.n, x.colour, &s)));
    symmetry_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flows_of_a_cell_have_the_rate_of_the_quotient_or_are_divided),
        cmocka_unit_test(a_ring_around_a_hub_is_one_flow),
        cmocka_unit_test(a_chain_is_one_cell_of_two_kinds),
    };
    return cmocka_run_group_tests_name("symmetry", tests, NULL, NULL);
}
