/* process.h - what a test wants to know of its own process: descriptors, children, output. */
#ifndef TESTS_PROCESS_H
#define TESTS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

size_t process_descriptors(void); /* how many are open */
bool process_childless(void);     /* no child, not even a dead one */

/* Standard output and error, diverted into a file. */
struct diverted {
    FILE *file;
    int out, err;
};

struct diverted process_divert(void);
/* Back to normal; returns how many bytes had been printed. */
long process_restore(struct diverted *d);

#endif
