/* papers.h - frameworks whose files the module of the published papers (model/papers.h) reads. */
#ifndef STUDY_FRAMEWORKS_PAPERS_H
#define STUDY_FRAMEWORKS_PAPERS_H

#include "model/papers.h"
#include "study/frameworks/setup.h"

/* What it exports, as "papers_of_frameworks". */
struct papers_of_frameworks {
    struct module module;
    /* Before anything else: setup_add_note(). */
    void (*serve)(enum status (*note)(struct setup *s, enum setup_note_kind kind, const char *fmt,
                                      ...));
    const struct dialect *runtime; /* of PipeDream's runtime: all but recognises() and the names */
};

#endif
