/* start.h - what the page can choose from. */
#ifndef EXPLORE_START_H
#define EXPLORE_START_H

#include "explore/task.h"

struct start_files {
    const char *folder;      /* where they were */
    const char *const *name; /* [n] as they are called in the tasks' folder */
    size_t n;
};

/* One object, NUL-terminated, malloc'd: "version"; "models" and "platforms" as `model list --json`
 * and `topology list --json` print them; "families" of generated platforms, each with its
 * parameters; names of "gpus" and "frameworks"; "folder" and "files". Runs two commands, for who is
 * connected to the socket `client`. */
enum status start_write(struct page_tasks *tasks, int client, const struct start_files *files,
                        char **text) MUST_CHECK;

#endif
