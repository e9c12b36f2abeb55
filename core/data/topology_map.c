/* Maps of tiers: squares of squares, equal ones once. */
#include "core/data/topology_map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/intern.h"

enum {
    SIDE = TOPOLOGY_MAP_SIDE,
    CELLS = TOPOLOGY_MAP_CELLS,
};

/* Sixteen rows of a level being collected. */
struct stripe {
    size_t filled;
    uint32_t *row; /* [SIDE * width] */
};

struct topology_map_builder {
    size_t n, rows;
    unsigned levels;
    size_t width[TOPOLOGY_MAP_LEVELS]; /* entries of a row: a multiple of SIDE */
    struct stripe stripe[TOPOLOGY_MAP_LEVELS];
    struct interner squares[TOPOLOGY_MAP_LEVELS];
};

unsigned topology_map_levels(size_t n)
{
    unsigned levels = 0;
    for (size_t covered = 1; covered < n; covered *= SIDE)
        levels++;
    return levels;
}

void topology_map_free(struct topology_map *map)
{
    for (unsigned l = 0; l < TOPOLOGY_MAP_LEVELS; l++)
        free(map->cell[l]);
    *map = (struct topology_map){0};
}

/* The distinct squares of one level, found by their contents. */
static const struct interner no_squares = {.size = CELLS * sizeof(uint32_t)};

static enum status map_number_of(struct interner *squares, const uint32_t *square, uint32_t *index)
{
    return intern(squares, square, squares->size, index, NULL);
}

/* ---- builder */

/* Past the edge, upper levels name square 0 below: it must be the one of zeros. */
static enum status begin_with_zeros(struct topology_map_builder *b)
{
    static const uint32_t zeros[CELLS];
    uint32_t index;
    for (unsigned l = 0; l + 1 < b->levels; l++)
        PASS(map_number_of(&b->squares[l], zeros, &index));
    return STATUS_OK;
}

void topology_map_builder_free(struct topology_map_builder *b)
{
    if (!b)
        return;
    for (unsigned l = 0; l < TOPOLOGY_MAP_LEVELS; l++) {
        interner_free(&b->squares[l]);
        free(b->stripe[l].row);
    }
    free(b);
}

enum status topology_map_begin(size_t n, struct topology_map_builder **out)
{
    enum status st = STATUS_OK;
    struct topology_map_builder *b = NULL;
    unsigned levels = topology_map_levels(n);
    if (levels > TOPOLOGY_MAP_LEVELS)
        return error_set(STATUS_INVALID, "got a platform of %zu devices, expected up to %d", n,
                         1 << (TOPOLOGY_MAP_LEVELS * TOPOLOGY_MAP_BITS));
    PASS(ARRAY_NEW(b, 1));
    b->n = n;
    b->levels = levels;
    size_t entries = n;
    for (unsigned l = 0; l < levels; l++) {
        entries = (entries + SIDE - 1) / SIDE;
        b->width[l] = entries * SIDE;
        b->squares[l] = no_squares;
        TRY(ARRAY_NEW(b->stripe[l].row, SIDE * b->width[l]));
    }
    TRY(begin_with_zeros(b));
    MOVE(out, b);
out:
    topology_map_builder_free(b);
    return st;
}

/* Turn the sixteen rows of a level into one row of the next, and so on upwards. Rows that were not
 * given, and entries past the last square, stay 0. */
static enum status cut_stripe(struct topology_map_builder *b, unsigned level)
{
    for (unsigned l = level; l < b->levels; l++) {
        struct stripe *s = &b->stripe[l];
        struct stripe *above = l + 1 < b->levels ? &b->stripe[l + 1] : NULL;
        uint32_t square[CELLS], index = 0;
        for (size_t column = 0; column < b->width[l]; column += SIDE) {
            for (size_t r = 0; r < SIDE; r++)
                memcpy(square + r * SIDE, s->row + r * b->width[l] + column, SIDE * sizeof *square);
            PASS(map_number_of(&b->squares[l], square, &index));
            if (above)
                above->row[above->filled * b->width[l + 1] + column / SIDE] = index;
        }
        memset(s->row, 0, SIDE * b->width[l] * sizeof *s->row);
        s->filled = 0;
        if (!above || ++above->filled < SIDE)
            break;
    }
    return STATUS_OK;
}

/* The sixteenth row of a stripe makes squares of it. */
enum status topology_map_row(struct topology_map_builder *b, const uint32_t *row)
{
    assert(b->rows < b->n);
    size_t at = b->rows++;
    if (b->levels == 0)
        return STATUS_OK;
    struct stripe *s = &b->stripe[0];
    uint32_t *to = s->row + s->filled * b->width[0];
    memcpy(to, row, b->n * sizeof *row);
    to[at] = 0;
    return ++s->filled == SIDE ? cut_stripe(b, 0) : STATUS_OK;
}

enum status topology_map_square(struct topology_map_builder *b, unsigned level,
                                const uint32_t *cell, uint32_t *index)
{
    b->rows = level + 1 == b->levels ? b->n : b->rows;
    return map_number_of(&b->squares[level], cell, index);
}

/* A map of zeros only needs no squares: square 0 of every level but the top is the one of zeros. */
static void simplify(struct topology_map *map)
{
    bool zero = true;
    for (size_t i = 0; zero && map->levels > 0 && i < CELLS; i++)
        zero = map->cell[map->levels - 1][i] == 0;
    if (zero)
        topology_map_free(map);
}

/* Cuts what stripes are not full, from below, and takes the squares out. */
enum status topology_map_finish(struct topology_map_builder *b, struct topology_map *out)
{
    enum status st = STATUS_OK;
    struct topology_map map = {.levels = b->levels};
    assert(b->rows == b->n);
    for (unsigned l = 0; l < b->levels; l++)
        if (b->stripe[l].filled > 0)
            TRY(cut_stripe(b, l));
    for (unsigned l = 0; l < b->levels; l++) {
        struct interner *s = &b->squares[l];
        uint32_t *exact = realloc(s->data, s->n * s->size);
        if (!exact)
            FAIL(STATUS_NOMEM, "out of memory for the topology map (%zu squares)", s->n);
        map.squares[l] = s->n;
        map.cell[l] = exact;
        s->data = NULL;
        interner_free(s);
    }
    simplify(&map);
    MOVE(out, map);
out:
    topology_map_free(&map);
    return st;
}

/* The map with every number x replaced by number[x], equal squares merged from below. */
static enum status map_merge_squares(const struct topology_map *map, const uint32_t *number,
                                     struct topology_map *out)
{
    enum status st = STATUS_OK;
    struct interner squares = no_squares;
    uint32_t *index = NULL, *below = NULL; /* what squares of this level and the last became */
    struct topology_map merged = {.levels = map->levels};
    for (unsigned l = 0; l < map->levels; l++) {
        TRY(ARRAY_NEW(index, map->squares[l]));
        for (size_t s = 0; s < map->squares[l]; s++) {
            const uint32_t *cell = map->cell[l] + s * CELLS;
            uint32_t square[CELLS];
            for (size_t c = 0; c < CELLS; c++)
                square[c] = (l > 0 ? below : number)[cell[c]];
            TRY(map_number_of(&squares, square, &index[s]));
        }
        merged.cell[l] = squares.data;
        merged.squares[l] = squares.n;
        squares.data = NULL;
        interner_free(&squares);
        free(below);
        MOVE(&below, index);
    }
    simplify(&merged);
    MOVE(out, merged);
out:
    topology_map_free(&merged);
    interner_free(&squares);
    free(index);
    free(below);
    return st;
}

enum status topology_map_renumber(struct topology_map *map, const uint32_t *number)
{
    struct topology_map merged = {0};
    enum status st = map_merge_squares(map, number, &merged);
    if (st == STATUS_OK) {
        topology_map_free(map);
        *map = merged;
    }
    return st;
}

/* ---- counting */

struct tally {
    const struct topology_map *map;
    uint64_t *pairs;
    uint64_t *times[TOPOLOGY_MAP_LEVELS]; /* [squares] how often a whole square occurs */
};

static size_t map_least_number(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Count the top left rows x columns entries of a square, whole squares only as such. */
static void tally_part(struct tally *t, unsigned level, uint32_t square, size_t rows,
                       size_t columns)
{
    size_t below = (size_t)1 << (level * TOPOLOGY_MAP_BITS); /* entries a side of a cell */
    if (rows == below * SIDE && columns == below * SIDE) {
        t->times[level][square]++;
        return;
    }
    const uint32_t *cell = t->map->cell[level] + (size_t)square * CELLS;
    for (size_t r = 0; r * below < rows; r++)
        for (size_t c = 0; c * below < columns; c++) {
            uint32_t found = cell[r * SIDE + c];
            if (level == 0)
                t->pairs[found]++;
            else
                tally_part(t, level - 1, found, map_least_number(below, rows - r * below),
                           map_least_number(below, columns - c * below));
        }
}

/* From the top down: how often each square occurs as a whole, then each number in the squares. What
 * hangs over the edge is counted entry by entry, and the diagonal is taken out at the end. */
enum status topology_map_count(const struct topology_map *map, size_t n, size_t numbers,
                               uint64_t *pairs)
{
    enum status st = STATUS_OK;
    struct tally t = {.map = map, .pairs = pairs};
    memset(pairs, 0, numbers * sizeof *pairs);
    if (map->levels == 0) {
        if (n > 1)
            pairs[0] = (uint64_t)n * (n - 1);
        return STATUS_OK;
    }
    for (unsigned l = 0; l < map->levels; l++)
        TRY(ARRAY_NEW(t.times[l], map->squares[l]));
    tally_part(&t, map->levels - 1, 0, n, n);
    for (unsigned l = map->levels; l-- > 0;)
        for (size_t s = 0; s < map->squares[l]; s++)
            for (size_t c = 0; t.times[l][s] > 0 && c < CELLS; c++) {
                uint32_t found = map->cell[l][s * CELLS + c];
                *(l > 0 ? &t.times[l - 1][found] : &pairs[found]) += t.times[l][s];
            }
    for (uint32_t i = 0; i < n; i++)
        pairs[topology_map_at(map, i, i)]--;
out:
    for (unsigned l = 0; l < map->levels; l++)
        free(t.times[l]);
    return st;
}

/* ---- first places */

/* A walk through the map, row by row. */
struct map_walk {
    const struct topology_map *map;
    size_t n;
    struct topology_map_place *first;
    unsigned char *seen[TOPOLOGY_MAP_LEVELS]; /* a bit for each row of each square */
};

/* Whether the row of the square has been walked along before; it has now. */
static bool was_seen(struct map_walk *w, unsigned level, size_t square, size_t row)
{
    size_t bit = (square << ((level + 1) * TOPOLOGY_MAP_BITS)) + row;
    unsigned char mask = (unsigned char)(1 << bit % 8), *byte = &w->seen[level][bit / 8];
    bool seen = *byte & mask;
    *byte |= mask;
    return seen;
}

/* Walk along a row of a square that begins at `column`. A row that was walked along before, whole,
 * has nothing new. */
static void walk_row(struct map_walk *w, unsigned level, size_t square, uint32_t row, size_t column)
{
    unsigned shift = level * TOPOLOGY_MAP_BITS;
    size_t side = (size_t)1 << shift, local = row & (side * SIDE - 1);
    const uint32_t *cell = w->map->cell[level] + square * CELLS + (local >> shift) * SIDE;
    if (column + side * SIDE <= w->n && was_seen(w, level, square, local))
        return;
    for (size_t c = 0; c < SIDE && column + c * side < w->n; c++) {
        size_t at = column + c * side;
        if (level > 0)
            walk_row(w, level - 1, cell[c], row, at);
        else if (w->first[cell[c]].from == w->n)
            w->first[cell[c]] = (struct topology_map_place){row, (uint32_t)at};
    }
}

enum status topology_map_first(const struct topology_map *map, size_t n, size_t numbers,
                               struct topology_map_place *first)
{
    enum status st = STATUS_OK;
    struct map_walk w = {.map = map, .n = n, .first = first};
    for (size_t k = 0; k < numbers; k++)
        first[k] = (struct topology_map_place){(uint32_t)n, (uint32_t)n};
    for (unsigned l = 0; l < map->levels; l++)
        TRY(ARRAY_NEW(w.seen[l], (map->squares[l] << ((l + 1) * TOPOLOGY_MAP_BITS)) / 8));
    for (uint32_t row = 0; map->levels > 0 && row < n; row++)
        walk_row(&w, map->levels - 1, 0, row, 0);
    if (map->levels == 0 && numbers > 0 && n > 0)
        first[0] = (struct topology_map_place){0, 0};
out:
    for (unsigned l = 0; l < map->levels; l++)
        free(w.seen[l]);
    return st;
}

/* Whatever the map says, look-ups stay inside its arrays then. */
bool topology_map_is_sound(const struct topology_map *map, size_t n, size_t numbers)
{
    if (map->levels == 0)
        return numbers > 0 || n < 2;
    if (map->levels > TOPOLOGY_MAP_LEVELS || map->levels != topology_map_levels(n) ||
        map->squares[map->levels - 1] != 1)
        return false;
    for (unsigned l = 0; l < map->levels; l++) {
        size_t limit = l > 0 ? map->squares[l - 1] : numbers;
        for (size_t i = 0; i < map->squares[l] * CELLS; i++)
            if (map->cell[l][i] >= limit)
                return false;
    }
    return true;
}
