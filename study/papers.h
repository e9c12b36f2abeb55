/* papers.h - what the published work in papers/ (model/papers.h) plans, and how its runs are
 * configured. */
#ifndef STUDY_PAPERS_H
#define STUDY_PAPERS_H

#include <stdio.h>

#include "model/papers.h"
#include "study/planning.h"

/* What the module calls here: functions of these names. */
struct papers_services {
    bool (*arguments_given)(const struct arguments *a, const char *name);
    FILE *(*arguments_prose)(const struct arguments *a);
    enum status (*load_model)(const char *spec, struct model *out);
    enum status (*load_model_apart)(const char *spec, struct model *out);
    enum status (*load_model_members)(const char *spec, struct model *out,
                                      struct import_members *members);
    enum status (*load_topology)(const char *name, struct topology *out, char **path);
    enum status (*evaluate_once)(const struct evaluation_context *context, const struct plan *plan,
                                 struct evaluation *out);
    const struct model_op *(*point_without_numerics)(const struct model *m, const struct plan *p);
    void (*warn_of_platform)(const struct model *m, const struct topology *t, FILE *to);
};

/* What it exports, as "papers_of_plans". */
struct papers_of_plans {
    struct module module;
    void (*serve)(const struct papers_services *services); /* before anything else */
    /* plan_by_objective() and plan_of_objective() of planning.h */
    enum status (*by_objective)(const struct arguments *a, const struct provenance *by,
                                const volatile int *stop);
    enum status (*of_objective)(const struct arguments *a, const struct model *m,
                                const struct topology *t, struct plan *out);
    /* A driver file of PipeDream's runtime as a text that says the same in foreline's settings,
     * every one of them in the line in which the driver file says it; malloc'd. STATUS_PARSE, with
     * path:line; STATUS_UNSUPPORTED, STATUS_NOMEM. */
    enum status (*translate_driver)(const char *path, const char *text, size_t length, char **out);
};

enum status papers_load_plans(const struct papers_of_plans **out) MUST_CHECK;

/* A file of `run --config` that another tool is configured by, as translate_driver() has it; *out
 * NULL: it is foreline's own, or nobody's. */
enum status papers_translate_driver(const char *path, const char *text, size_t length,
                                    char **out) MUST_CHECK;

#endif
