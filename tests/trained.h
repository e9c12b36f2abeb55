/* trained.h - a model trained for a few steps by real devices over a real transport, the ranks
 * being threads, however it is spread over them: what is left of its parameters, and what was
 * moved. */
#ifndef TESTS_TRAINED_H
#define TESTS_TRAINED_H

#include <pthread.h>

#include "core/data/model.h"
#include "partition/partition.h"
#include "tests/mesh.h"

enum { STEPS = 4, MICROBATCHES = 4, MICROBATCH = 2 };

/* What training has left: all parameters of every op, and the losses. */
struct trained {
    const struct model *model;
    double learning_rate;
    struct mesh mesh;
    pthread_mutex_t mutex;
    float **parameter; /* [model->n] of the whole op */
    size_t *seen;      /* [model->n] numbers that some rank has shown */
    double loss[STEPS];
    size_t versions;   /* of the weights, most of any stage */
    size_t buckets;    /* gradient buckets, most of any stage */
    int64_t *moved;    /* [ops] bytes of the arrays of collectives in the last step */
    uint32_t *step_of; /* [ops] sums inside passes: which step that is */
};

/* "pp=2 dp=4 zero=3 kept full zb-h1": a request from NAME=NUMBER of pp (stages), dp (replicas), tp,
 * cp and ep (shards, replicas that share sequences, that experts are spread over), chunks, zero,
 * group, bucket (bytes), layers and unit (of full recomputation); of kept, scatter (messages in
 * parts), sequence (parallelism), a recomputation, an exchange of context parallelism and a
 * schedule, whose names are their own. Without: one rank, 1f1b. */
struct partition_request request_of(const char *how);

/* Trains for `steps` and checks that every parameter was seen, the same to the bit on all ranks
 * that have it; `name` is for messages. Ends the test on failure; trained_free() afterwards. */
void train(const struct model *m, const char *name, const struct partition_request *how,
           size_t steps, struct trained *t);
/* The same at another rate than 1e-3. Adam, MICROBATCHES and equal replicas where the request says
 * nothing. */
void train_at(double learning_rate, const struct model *m, const char *name,
              const struct partition_request *how, size_t steps, struct trained *t);
void trained_free(struct trained *t);

/* Largest difference of any parameter. */
double distance(const struct trained *a, const struct trained *b);
size_t parameters_of(const struct trained *t, uint32_t op);

/* Each of how[n] (request_of()) trains the model to what one process does: parameters and losses
 * are at most `tolerance` apart, 0: the same bits. (A step of Adam moves a parameter by up to
 * 1e-3.) `spec`: a model of the zoo, or one of the configurations beside the tests: "NAME.json" or
 * "NAME.json:choices". */
void compare(const char *spec, const char *const *how, size_t n, double tolerance);
#define COMPARE(spec, how, tolerance) compare(spec, how, sizeof(how) / sizeof *(how), tolerance)

static const char gpt[] = "gpt-tiny:layers=2,hidden=32,tokens=16";
static const char tied[] = "gpt-tiny:layers=2,hidden=32,tokens=16,tied=1";
static const char bert[] = "bert-base:layers=2,hidden=32,heads=4,tokens=16,vocabulary=301";

#endif
