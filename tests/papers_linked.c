/* The module of the published papers, linked into a test: every allocation of it can be made to
 * fail. */
#include "papers/module/services.h"

#include <string.h>

extern const struct papers_of_models papers_of_models;
extern const struct papers_of_plans papers_of_plans;
extern const struct papers_of_frameworks papers_of_frameworks;

enum status papers_load(const char *symbol, const void **out)
{
    *out = strcmp(symbol, "papers_of_models") == 0  ? (const void *)&papers_of_models
           : strcmp(symbol, "papers_of_plans") == 0 ? (const void *)&papers_of_plans
                                                    : (const void *)&papers_of_frameworks;
    return STATUS_OK;
}

void services_take(const struct papers_services *services)
{
    (void)services; /* study/ itself is here */
}

void services_take_note(enum status (*note)(struct setup *s, enum setup_note_kind kind,
                                            const char *fmt, ...))
{
    (void)note;
}
