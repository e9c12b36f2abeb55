/* Units that exchange much belong together: three of igraph's ways to find them. */
#include "partition/graph/weighed.h"

/* Of Leiden communities: as many as is best, at this resolution (Traag, Waltman, van Eck, Sci. Rep.
 * 9, 2019), finer ones where more stages are wanted. */
static enum status leiden(const struct weighed *w, size_t parts, igraph_vector_int_t *group)
{
    double resolution = (double)parts / (double)igraph_vcount(&w->graph);
    return from_igraph(igraph_community_leiden(&w->graph, &w->weight, NULL, resolution, 0.01, false,
                                               4, group, NULL, NULL));
}

/* Exactly as many as stages (Pares et al., COMPLEX NETWORKS 2017); the graph must be connected. */
static enum status fluid(const struct weighed *w, size_t parts, igraph_vector_int_t *group)
{
    igraph_bool_t connected;
    PASS(from_igraph(igraph_is_connected(&w->graph, &connected, IGRAPH_WEAK)));
    if (!connected)
        return error_set(STATUS_UNSUPPORTED,
                         "igraph:fluid (fluid communities) needs a connected model graph");
    return from_igraph(
        igraph_community_fluid_communities(&w->graph, (igraph_integer_t)parts, group));
}

/* Raghavan, Albert, Kumara, Phys. Rev. E 76, 2007. */
static enum status labels(const struct weighed *w, size_t parts, igraph_vector_int_t *group)
{
    (void)parts;
    return from_igraph(
        igraph_community_label_propagation(&w->graph, group, IGRAPH_ALL, &w->weight, NULL, NULL));
}

static enum status propose(const struct units *u, size_t parts, double *key,
                           enum status (*find)(const struct weighed *, size_t,
                                               igraph_vector_int_t *))
{
    enum status st;
    struct weighed w = {0};
    igraph_vector_int_t group = {0};
    TRY(weighed_make(u, &w));
    TRY_IGRAPH(igraph_vector_int_init(&group, 0));
    TRY(find(&w, parts, &group));
    TRY(weighed_keys(u, &group, key));
out:
    igraph_vector_int_destroy(&group);
    weighed_free(&w);
    return st;
}

enum status proposer_leiden(const struct units *u, size_t parts, double *key)
{
    return propose(u, parts, key, leiden);
}

enum status proposer_fluid(const struct units *u, size_t parts, double *key)
{
    return propose(u, parts, key, fluid);
}

enum status proposer_labels(const struct units *u, size_t parts, double *key)
{
    return propose(u, parts, key, labels);
}
