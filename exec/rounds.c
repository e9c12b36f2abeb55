/* Rounds of the ring and of the double binary tree. */
#include "exec/rounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"

/* ---- the ring
 *
 * A reduce-scatter takes ranks - 1 rounds of 1/ranks of the array each, an all-gather as many, and
 * an all-reduce is one after the other: 0 .. ranks - 2, then ranks - 1 .. 2 ranks - 3. Chunks
 * travel along the ring: what a member takes in one round it gives in the next, so that every
 * element is summed on one member, in the order of the ring from the member after that one, and
 * copied to the others. With three members and chunks a, b, c:
 *
 *   round   member 0            member 1            member 2
 *   0       gives a, adds c     gives b, adds a     gives c, adds b
 *   1       gives c, adds b     gives a, adds c     gives b, adds a
 *   2       gives b, takes a    gives c, takes b    gives a, takes c
 *   3       gives a, takes c    gives b, takes a    gives c, takes b
 *
 * After round 1 member 0 has the sum of b, member 1 that of c, member 2 that of a: ring_owned().
 * Source: Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
 * J. Parallel and Distributed Computing 69 (2009). */

static bool serve_all(enum op_kind kind)
{
    return rounds_do(kind);
}

static size_t ring_count(const struct rounds_call *c)
{
    return (c->kind == OP_ALLREDUCE ? 2 : 1) * (c->ranks - 1);
}

static struct round ring_at(const struct rounds_call *c, size_t k)
{
    size_t n = c->ranks, number = c->kind == OP_ALLGATHER ? k + n - 1 : k;
    return (struct round){.to = (uint32_t)((c->me + 1) % n),
                          .from = (uint32_t)((c->me + n - 1) % n),
                          .give = ring_part(c->n, n, (c->me + 2 * n - number) % n),
                          .take = ring_part(c->n, n, (c->me + 2 * n - number - 1) % n),
                          .adds = number + 1 < n};
}

/* ---- the double binary tree
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

static bool serve_all_reduce(enum op_kind kind)
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

static size_t tree_count(const struct rounds_call *c)
{
    return 8 * tree_height(c->ranks);
}

static struct round tree_at(const struct rounds_call *c, size_t k)
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

/* ---- all of them */

const struct rounds_algorithm rounds_algorithms[] = {
    {.name = "ring",
     .summary = "every collective, in chunks around a ring",
     .serves = serve_all,
     .count = ring_count,
     .at = ring_at},
    {.name = "tree",
     .summary = "all-reduces up and down two binary trees",
     .serves = serve_all_reduce,
     .count = tree_count,
     .at = tree_at},
    {0}};

enum status rounds_find(const char *name, const struct rounds_algorithm **out)
{
    char names[128] = "auto";
    size_t length = strlen(names);
    for (const struct rounds_algorithm *a = rounds_algorithms; a->name; a++) {
        if (!name || !strcmp(name, "auto") || !strcmp(name, a->name)) {
            *out = a;
            return STATUS_OK;
        }
        length += (size_t)snprintf(names + length, sizeof names - length, ", %s", a->name);
    }
    return error_set(STATUS_UNSUPPORTED, "collective algorithm '%s': real runs can do %s", name,
                     names);
}

bool rounds_do(enum op_kind kind)
{
    return kind == OP_ALLREDUCE || kind == OP_REDUCESCATTER || kind == OP_ALLGATHER;
}

static const struct rounds_algorithm *algorithm_of(const struct rounds_call *c)
{
    return c->algorithm && c->algorithm->serves(c->kind) ? c->algorithm : &rounds_algorithms[0];
}

size_t rounds_count(const struct rounds_call *c)
{
    return algorithm_of(c)->count(c);
}

struct round rounds_at(const struct rounds_call *c, size_t k)
{
    return algorithm_of(c)->at(c, k);
}

size_t rounds_largest(const struct rounds_call *c)
{
    size_t largest = 0;
    for (size_t k = 0; k < rounds_count(c); k++) {
        struct round r = rounds_at(c, k);
        largest = r.adds && r.take.n > largest ? r.take.n : largest;
    }
    return largest;
}

enum status rounds_grow(const struct rounds_call *c, struct rounds_room *room)
{
    size_t need = rounds_largest(c);
    if (need <= room->n && room->data)
        return STATUS_OK;
    free(room->data);
    room->n = 0;
    if (ARRAY_NEW(room->data, need) != STATUS_OK)
        return STATUS_NOMEM;
    room->n = need;
    return STATUS_OK;
}
