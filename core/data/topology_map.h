/* topology_map.h - which tier lies between any two devices, in little memory.
 *
 * The n x n matrix of tiers is cut into squares of 16 x 16 entries, the matrix of these squares
 * into squares of 16 x 16 again, and so on; equal squares are stored once. A machine built of equal
 * racks of equal nodes takes a few dozen squares whatever its size, one without any regularity
 * about 4 bytes a pair. The diagonal and what hangs over the edge hold tier 0.
 *
 * Source: quadtrees with shared subtrees (Samet, ACM Computing Surveys 16 (1984)), of fan-out 16.
 */
#ifndef CORE_DATA_TOPOLOGY_MAP_H
#define CORE_DATA_TOPOLOGY_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

enum {
    TOPOLOGY_MAP_BITS = 4,
    TOPOLOGY_MAP_SIDE = 1 << TOPOLOGY_MAP_BITS,
    TOPOLOGY_MAP_CELLS = TOPOLOGY_MAP_SIDE * TOPOLOGY_MAP_SIDE,
    TOPOLOGY_MAP_LEVELS = 5, /* 16^5 = 1,048,576 devices */
};

struct topology_map {
    unsigned levels; /* 0: tier 0 everywhere */
    size_t squares[TOPOLOGY_MAP_LEVELS];
    uint32_t *cell[TOPOLOGY_MAP_LEVELS]; /* [squares[l] * CELLS] row-major: a tier at level 0, a
                                            square of level l - 1 above; the top has one square */
};

/* The number stored for a pair; O(levels). */
static inline uint32_t topology_map_at(const struct topology_map *map, uint32_t from, uint32_t to)
{
    uint32_t found = 0;
    for (unsigned l = map->levels; l-- > 0;) {
        unsigned shift = l * TOPOLOGY_MAP_BITS;
        uint32_t row = from >> shift & (TOPOLOGY_MAP_SIDE - 1);
        uint32_t column = to >> shift & (TOPOLOGY_MAP_SIDE - 1);
        found = map->cell[l][(size_t)found * TOPOLOGY_MAP_CELLS + row * TOPOLOGY_MAP_SIDE + column];
    }
    return found;
}

/* Levels that n devices need: the least l with 16^l >= n. */
unsigned topology_map_levels(size_t n);

/* Build a map from its rows, in order. {0} before topology_map_begin(). */
struct topology_map_builder;
/* n <= 1,048,576, or STATUS_INVALID. */
enum status topology_map_begin(size_t n, struct topology_map_builder **out) MUST_CHECK;
/* row [n]: the numbers of the next device's pairs; its diagonal entry is ignored. O(n). */
enum status topology_map_row(struct topology_map_builder *b, const uint32_t *row) MUST_CHECK;
/* Instead of rows, squares from the bottom up: cell [CELLS] are numbers at level 0, squares of the
 * level below above, 0 past the edge; equal squares have one index. The one of the top level is the
 * last. */
enum status topology_map_square(struct topology_map_builder *b, unsigned level,
                                const uint32_t *cell, uint32_t *index) MUST_CHECK;
/* After n rows or the top square: the map. The builder stays to be freed. STATUS_NOMEM. */
enum status topology_map_finish(struct topology_map_builder *b,
                                struct topology_map *out) MUST_CHECK;
void topology_map_builder_free(struct topology_map_builder *b); /* accepts NULL */

/* Replace every stored number x by number[x]; number[0] must be 0 (diagonal and edge). Merges what
 * became equal. STATUS_NOMEM; the map is unchanged then. */
enum status topology_map_renumber(struct topology_map *map, const uint32_t *number) MUST_CHECK;

/* How many ordered pairs of n different devices hold each number: pairs [numbers], out. */
enum status topology_map_count(const struct topology_map *map, size_t n, size_t numbers,
                               uint64_t *pairs) MUST_CHECK;

/* Where each number is first met, row by row: first [numbers], out; {n, n} for one that is nowhere.
 * The diagonal's 0 counts as any other. STATUS_NOMEM. O(squares + n). */
struct topology_map_place {
    uint32_t from, to;
};
enum status topology_map_first(const struct topology_map *map, size_t n, size_t numbers,
                               struct topology_map_place *first) MUST_CHECK;

/* Whether every entry is below its limit: `numbers` at level 0, squares[l - 1] above, the top one
 * square and as many levels as n devices need or none. For maps that come from outside. */
bool topology_map_is_sound(const struct topology_map *map, size_t n, size_t numbers);

void topology_map_free(struct topology_map *map); /* accepts {0}; leaves {0} */

#endif
