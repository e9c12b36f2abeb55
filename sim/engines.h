/* engines.h - the table of simulators: one file and one line of engines.def per engine. */
#ifndef SIM_ENGINES_H
#define SIM_ENGINES_H

#include "core/engine/engine.h"

#define ENGINE(name) extern const struct engine engine_##name;
#include "sim/engines.def"
#undef ENGINE
extern const struct engine *const engines[]; /* [engines_n] */
extern const size_t engines_n;

/* How many share links as flows do; they come first, those that simulate packets behind them. */
size_t engines_fluid(void);
/* The first of the table that is quick, and the first that judges. What needs one asks for what it
 * can, not for a name. */
const struct engine *engine_quick(void);
const struct engine *engine_judge(void);

/* STATUS_INVALID lists the known names. */
enum status engine_find(const char *name, const struct engine **out) MUST_CHECK;

#endif
