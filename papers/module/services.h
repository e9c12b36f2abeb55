/* services.h - what the module calls of study/: functions of the same names, which go to the
 * program that loaded it. Where papers are linked beside study/, as in tests, these are study's
 * own. */
#ifndef PAPERS_MODULE_SERVICES_H
#define PAPERS_MODULE_SERVICES_H

#include "study/frameworks/papers.h"
#include "study/papers.h"

void services_take(const struct papers_services *services);
void services_take_note(enum status (*note)(struct setup *s, enum setup_note_kind kind,
                                            const char *fmt, ...));

#endif
