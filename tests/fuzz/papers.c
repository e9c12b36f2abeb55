/* The module of the published papers, as far as fuzz targets read its formats, linked into them. */
#include <string.h>

#include "papers/module/services.h"

extern const struct papers_of_models papers_of_models;
extern const struct papers_of_frameworks papers_of_frameworks;

enum status papers_load(const char *symbol, const void **out)
{
    bool frameworks = strcmp(symbol, "papers_of_frameworks") == 0;
    *out = frameworks ? (const void *)&papers_of_frameworks : (const void *)&papers_of_models;
    return STATUS_OK;
}

void services_take_note(enum status (*note)(struct setup *s, enum setup_note_kind kind,
                                            const char *fmt, ...))
{
    (void)note;
}
