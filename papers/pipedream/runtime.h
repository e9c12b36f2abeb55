/* runtime.h - JSON of PipeDream's runtime as a dialect of frameworks: of what it does, that which
 * comes after a file is recognised (study/frameworks/pipedream.c). */
#ifndef PAPERS_PIPEDREAM_RUNTIME_H
#define PAPERS_PIPEDREAM_RUNTIME_H

#include "study/frameworks/setup.h"

extern const struct dialect pipedream_runtime;

#endif
