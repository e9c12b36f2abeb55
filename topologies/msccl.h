/* msccl.h - algorithms of collectives as files of MSCCL (XML): what `algo`, `gpu`, `tb` and `step`
 * say, as its interpreter takes it; and as JSON of those who find them (SCCL, TACCL). Format and
 * interpreter: github.com/microsoft/msccl, github.com/microsoft/msccl-tools
 * (msccl/language/ir.py). */
#ifndef TOPOLOGIES_MSCCL_H
#define TOPOLOGIES_MSCCL_H

#include "core/collective/steps.h"

/* Read either and execute (steps_check(), or step by step). STATUS_PARSE as "FILE:LINE: what",
 * STATUS_UNSUPPORTED for the collective "custom", STATUS_IO, STATUS_NOMEM. */
enum status msccl_read(const char *path, struct steps_algorithm *out) MUST_CHECK;
/* The same of JSON text; `path` is for messages. *out has phases and flows, no steps. */
enum status msccl_parse_json(const char *path, const char *text, size_t length,
                             struct steps_algorithm *out) MUST_CHECK;

#endif
