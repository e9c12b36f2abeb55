/* The eigenvector of the second smallest eigenvalue of the graph's Laplacian, by ARPACK: what is
 * near in it exchanges much (Fiedler, Czechoslovak Math. J. 25, 1975). */
#include <math.h>

#include "partition/graph/weighed.h"

enum { BASIS = 32, MOST_ITERATIONS = 1000 };

/* Of the largest eigenvalue. The smallest of a long graph lie nearer together than this; mixtures
 * of their vectors order units as well. */
static const double tolerance = 1e-5;

/* The Laplacian from a bound of its eigenvalues: so the smallest become the largest, which ARPACK
 * finds sooner. */
struct laplacian {
    const struct weighed *w;
    double bound;
    double *weight; /* [edges] */
    double *degree; /* [n] */
};

static igraph_error_t multiply(igraph_real_t *to, const igraph_real_t *from, int n, void *context)
{
    const struct laplacian *l = context;
    igraph_integer_t edges = igraph_ecount(&l->w->graph);
    for (int k = 0; k < n; k++)
        to[k] = (l->bound - l->degree[k]) * from[k];
    for (igraph_integer_t e = 0; e < edges; e++) {
        igraph_integer_t a = IGRAPH_FROM(&l->w->graph, e), b = IGRAPH_TO(&l->w->graph, e);
        to[a] += l->weight[e] * from[b];
        to[b] += l->weight[e] * from[a];
    }
    return IGRAPH_SUCCESS;
}

/* Signs are arbitrary: the inputs come first. */
static void orient(const struct units *u, double *key)
{
    double along = 0, mean = ((double)u->n - 1) / 2;
    for (size_t k = 0; k < u->n; k++)
        along += ((double)k - mean) * key[k];
    for (size_t k = 0; k < u->n && along < 0; k++)
        key[k] = -key[k];
}

enum status proposer_spectral(const struct units *u, size_t parts, double *key)
{
    enum status st;
    struct weighed w = {0};
    struct arena a = {0};
    struct laplacian l = {.w = &w};
    igraph_arpack_options_t options;
    igraph_vector_t values = {0};
    igraph_matrix_t vectors = {0};
    (void)parts;
    if (u->n < 4)
        return error_set(STATUS_UNSUPPORTED,
                         "spectral cut: the model graph has %zu nodes, expected at least 4", u->n);
    TRY(weighed_make(u, &w));
    TRY(ARENA_NEW(&a, l.degree, u->n));
    TRY(ARENA_NEW(&a, l.weight, (size_t)igraph_ecount(&w.graph)));
    for (igraph_integer_t e = 0; e < igraph_ecount(&w.graph); e++) {
        l.weight[e] = cbrt(VECTOR(w.weight)[e]); /* else few edges are all that counts */
        l.degree[IGRAPH_FROM(&w.graph, e)] += l.weight[e];
        l.degree[IGRAPH_TO(&w.graph, e)] += l.weight[e];
    }
    for (size_t k = 0; k < u->n; k++)
        l.bound = fmax(l.bound, 2 * l.degree[k]);
    TRY_IGRAPH(igraph_vector_init(&values, 0));
    TRY_IGRAPH(igraph_matrix_init(&vectors, 0, 0));
    igraph_arpack_options_init(&options);
    options.n = (int)u->n;
    options.nev = 2;
    options.ncv = u->n < BASIS ? (int)u->n : BASIS;
    options.which[0] = 'L';
    options.which[1] = 'A';
    options.mxiter = MOST_ITERATIONS;
    options.tol = tolerance;
    igraph_error_t e = igraph_arpack_rssolve(multiply, &l, &options, NULL, &values, &vectors);
    if (e == IGRAPH_ARPACK_MAXIT)
        FAIL(STATUS_UNSUPPORTED,
             "spectral cut: the second eigenvector did not converge within %d iterations",
             MOST_ITERATIONS);
    TRY_IGRAPH(e);
    for (size_t k = 0; k < u->n; k++)
        key[k] = igraph_matrix_get(&vectors, (igraph_integer_t)k, 1);
    orient(u, key);
out:
    igraph_matrix_destroy(&vectors);
    igraph_vector_destroy(&values);
    arena_free(&a);
    weighed_free(&w);
    return st;
}
