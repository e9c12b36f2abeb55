/* random_platform.h - random SimGrid platforms with every kind of routing and every feature of the
 * DTD, some of which foreline refuses. */
#ifndef TESTS_RANDOM_PLATFORM_H
#define TESTS_RANDOM_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

struct random_platform {
    char text[16384];
    size_t line;        /* of the first thing that is refused; 0: nothing is */
    const char *reason; /* a part of the message then */
    const char *kind;   /* what it is, for messages of the test */
};

/* The platform of a seed: 2 to 12 devices. The same seed, the same bytes. */
void random_platform(uint64_t seed, struct random_platform *out);

#endif
