/* chakra_read.h - a small reader of Chakra execution traces. What is not as it must be fails the
 * test. */
#ifndef TESTS_CHAKRA_READ_H
#define TESTS_CHAKRA_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/program.h"

struct chakra_attr {
    char name[32], text[64];
    uint32_t kind; /* field number of the value */
    uint64_t value;
    double real;
};

struct chakra_node {
    uint64_t id, type, duration, deps[16];
    char name[OP_LABEL];
    size_t n_deps, attrs;
    struct chakra_attr attr[8];
};

struct chakra_bytes {
    const unsigned char *at, *end;
};

/* Each takes what it returns off the front. */
uint64_t chakra_varint(struct chakra_bytes *b);
struct chakra_bytes chakra_piece(struct chakra_bytes *b); /* a length and so many bytes */

void chakra_text_of(struct chakra_bytes b, char *text, size_t size);
struct chakra_attr chakra_attr(struct chakra_bytes b);
struct chakra_node chakra_node(struct chakra_bytes b);
/* The attribute of that name, whose value must be of that kind. */
const struct chakra_attr *chakra_attr_of(const struct chakra_node *n, const char *name,
                                         uint32_t kind);
bool chakra_waits_for(const struct chakra_node *n, uint64_t id);

#endif
