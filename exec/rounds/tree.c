/* Rounds of the double binary tree.
 *
 * Each half of the array is summed up one of two trees and sent down again. In each tree members
 * have places 1 .. ranks in order; a place is inside at the height of its lowest set bit, and its
 * children are half of that bit to the left and to the right (nearer at the end of the row). The
 * second tree is the first mirrored (even numbers of members) or shifted by one, so that no member
 * is inside both. Rounds go through the heights, in each through left and right children, in each
 * through both trees. With five members, by places, and by members in both trees:
 *
 *         4              3              2
 *        / \            / \            / \
 *       2   5          1   4          0   3
 *      / \            / \            / \
 *     1   3          0   2          4   1
 *
 * Source: Sanders, Speck & Traeff, Parallel Computing 35 (2009) 581-594; the trees are those that
 * core/collective/tree.c predicts. */
#include "exec/rounds.h"

static bool tree_round_serves(enum op_kind kind)
{
    return kind == OP_ALLREDUCE;
}

static size_t tree_place(size_t n, bool second, size_t member)
{
    return 1 + (!second ? member : n % 2 == 0 ? n - 1 - member : (member + 1) % n);
}

static uint32_t tree_member(size_t n, bool second, size_t place)
{
    size_t k = place - 1;
    return (uint32_t)(!second ? k : n % 2 == 0 ? n - 1 - k : (k + n - 1) % n);
}

static size_t lowest_bit(size_t place)
{
    return place & (~place + 1);
}

/* The place above; 0 of the root. */
static size_t tree_parent(size_t n, size_t place)
{
    size_t low = lowest_bit(place), up = (place ^ low) | low << 1;
    return up <= n ? up : place ^ low;
}

/* The child on a side; 0: none. */
static size_t tree_child(size_t n, size_t place, bool right)
{
    size_t step = lowest_bit(place) / 2;
    if (!right)
        return step > 0 ? place - step : 0;
    while (step > 0 && place + step > n)
        step /= 2;
    return step > 0 ? place + step : 0;
}

static size_t tree_height(size_t n)
{
    size_t height = 0;
    while ((size_t)2 << height <= n)
        height++;
    return height;
}

static size_t tree_round_count(const struct rounds_call *c)
{
    return 8 * tree_height(c->ranks);
}

static struct round tree_round_at(const struct rounds_call *c, size_t k)
{
    size_t up = 4 * tree_height(c->ranks);
    bool down = k >= up;
    size_t j = down ? 2 * up - 1 - k : k, level = (size_t)1 << j / 4;
    bool second = j % 2, right = j / 2 % 2;
    size_t own = tree_place(c->ranks, second, c->me), above = tree_parent(c->ranks, own);
    size_t child = tree_child(c->ranks, own, right);
    const struct ring_part half = ring_part(c->n, 2, second);
    uint32_t parent = ROUND_NOBODY, below = ROUND_NOBODY;
    if (above > 0 && lowest_bit(own) == level && (own > above) == right)
        parent = tree_member(c->ranks, second, above);
    if (child > 0 && lowest_bit(child) == level)
        below = tree_member(c->ranks, second, child);
    struct round r = {.to = down ? below : parent, .from = down ? parent : below, .adds = !down};
    if (r.to != ROUND_NOBODY)
        r.give = half;
    if (r.from != ROUND_NOBODY)
        r.take = half;
    return r;
}

const struct rounds_algorithm rounds_tree = {
    .name = "tree",
    .summary = "all-reduces: reduce up and broadcast down two binary trees",
    .serves = tree_round_serves,
    .count = tree_round_count,
    .at = tree_round_at,
};
