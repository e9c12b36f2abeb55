/* revision.h - which revision of a git repository the working directory is, and what differs.
 *
 * The repository may be a stranger's, and its configuration and attributes name programs that git
 * runs (diff.external, core.fsmonitor, filter.NAME.clean, textconv, ssh of partial clones). So the
 * differences are made without that configuration: in a folder of ours that has HEAD and a copy of
 * the index, with the objects of the repository. What needs its configuration is therefore missing:
 * files under filters (Git LFS) differ as a whole, and of repositories in another format only the
 * revision is written. */
#ifndef STUDY_REVISION_H
#define STUDY_REVISION_H

#include <stdio.h>

/* Write the revision and `git diff HEAD` of the working directory, at most 16 MiB; nothing without
 * git or a repository. Never fails: it is a note, and what hinders it is said in it. */
void revision_put(FILE *to);

#endif
