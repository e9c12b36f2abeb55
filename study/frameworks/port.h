/* port.h - plans from and to the files with which other frameworks are told what to run. */
#ifndef STUDY_FRAMEWORKS_PORT_H
#define STUDY_FRAMEWORKS_PORT_H

#include <stdio.h>

#include "core/base/provenance.h"
#include "core/data/plan.h"
#include "core/data/topology.h"
#include "study/settings.h"

/* Write what runs the plan file there to a->output ("-" or NULL: standard output); what it does not
 * say goes to `notes`. STATUS_UNSUPPORTED: what the framework a->to cannot express. */
enum status port_export(const struct arguments *a, const char *plan, FILE *notes) MUST_CHECK;
/* Can the framework's launcher, as core/strategy/framework.h has it, say this plan?
 * STATUS_UNSUPPORTED: what it cannot express. `model`: its name or file; the topology's nodes have
 * been found. */
enum status port_says(const char *launcher, const struct plan *p, const struct model *m,
                      const struct topology *t, const char *model) MUST_CHECK;
/* The same of the launcher of the plan's framework, and it does not warn against the plan; then
 * refused [EVALUATION_REFUSED] says what, too. */
enum status port_launches(const struct plan *p, const struct model *m, const struct topology *t,
                          const char *model, char *refused) MUST_CHECK;
/* Make the plan that the files (one, or a script and what it sources) stand for: a line about it on
 * `out`, what was assumed, not expressed and ignored on `notes`, the plan in a->output, and beside
 * it the model, NAME.model.json, unless a->model or the file names one. */
enum status port_import(const struct arguments *a, const char *const *file, size_t files,
                        const struct provenance *by, FILE *out, FILE *notes) MUST_CHECK;

#endif
