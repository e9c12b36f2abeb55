/* Captures, {"head": capture.json, "class": a class's file}: what is accepted becomes a program that
 * is in order, or is refused. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/base/json.h"
#include "core/data/program_check.h"
#include "core/data/topology.h"
#include "core/lower/captured.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_RANKS = 16 }; /* more only take longer */

static enum status read(const char *text, size_t length, struct capture *out)
{
    enum status st;
    struct json_document d = {0};
    struct json_at head, class;
    TRY(json_parse("fuzz", text, length, NULL, 1, &d));
    struct json_at root = json_root(&d);
    TRY(json_field(&root, "head", &head));
    TRY(json_field(&root, "class", &class));
    TRY(capture_get_head(&head, out));
    for (size_t k = 0; k < out->classes; k++)
        TRY(capture_get_class(&class, &out->class[k]));
out:
    json_document_free(&d);
    return st;
}

static void lower(const struct capture *c)
{
    static char name[] = "a", *device[FUZZ_RANKS];
    static uint32_t type_of[FUZZ_RANKS];
    static struct device_type type = {.flops = 1e12, .memory_Bps = 1e12};
    struct topology t = {.name = name, .n = FUZZ_RANKS, .device = device, .types = 1};
    struct program p = {0};
    struct captured_map map = {0};
    struct captured_tally tally;
    t.type_of = type_of;
    t.type = &type;
    for (size_t r = 0; r < FUZZ_RANKS; r++)
        device[r] = name;
    for (int how = 0; how < 3; how++) {
        struct captured_options o = {.model = how == 1, .serial = how == 2};
        if (capture_lower(c, &t, &o, &p, &tally, &map) == STATUS_OK &&
            (p.ranks != c->ranks || program_check(&p) != STATUS_OK))
            abort();
        program_free(&p);
        captured_map_free(&map);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct capture c = {0};
    if (read((const char *)data, size, &c) == STATUS_OK && c.ranks <= FUZZ_RANKS)
        lower(&c);
    capture_free(&c);
    return 0;
}
