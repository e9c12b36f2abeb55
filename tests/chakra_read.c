#include "tests/chakra_read.h"

#include <string.h>

#include "tests/cmocka.h"

uint64_t chakra_varint(struct chakra_bytes *b)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        assert_true(b->at < b->end);
        value |= (uint64_t)(*b->at & 0x7f) << shift;
        if (!(*b->at++ & 0x80))
            return value;
    }
    fail_msg("a number does not end");
    return 0;
}

struct chakra_bytes chakra_piece(struct chakra_bytes *b)
{
    uint64_t n = chakra_varint(b);
    assert_true(n <= (uint64_t)(b->end - b->at));
    struct chakra_bytes inner = {b->at, b->at + n};
    b->at += n;
    return inner;
}

void chakra_text_of(struct chakra_bytes b, char *text, size_t size)
{
    size_t n = (size_t)(b.end - b.at);
    assert_true(n < size);
    memcpy(text, b.at, n);
    text[n] = '\0';
}

struct chakra_attr chakra_attr(struct chakra_bytes b)
{
    struct chakra_attr a = {0};
    while (b.at < b.end) {
        uint64_t key = chakra_varint(&b);
        if (key == (1 << 3 | 2)) {
            chakra_text_of(chakra_piece(&b), a.name, sizeof a.name);
        } else {
            a.kind = (uint32_t)(key >> 3);
            if ((key & 7) == 2) {
                chakra_text_of(chakra_piece(&b), a.text, sizeof a.text);
            } else if ((key & 7) == 1) {
                assert_true(b.end - b.at >= 8);
                memcpy(&a.real, b.at, 8);
                b.at += 8;
            } else {
                a.value = chakra_varint(&b);
            }
        }
    }
    return a;
}

struct chakra_node chakra_node(struct chakra_bytes b)
{
    struct chakra_node n = {0};
    while (b.at < b.end) {
        uint64_t key = chakra_varint(&b);
        struct chakra_bytes deps;
        switch (key) {
        case 1 << 3:
            n.id = chakra_varint(&b);
            break;
        case 2 << 3 | 2:
            chakra_text_of(chakra_piece(&b), n.name, sizeof n.name);
            break;
        case 3 << 3:
            n.type = chakra_varint(&b);
            break;
        case 5 << 3 | 2:
            for (deps = chakra_piece(&b); deps.at < deps.end;)
                n.deps[n.n_deps++] = chakra_varint(&deps);
            break;
        case 7 << 3:
            n.duration = chakra_varint(&b);
            break;
        case 10 << 3 | 2:
            n.attr[n.attrs++] = chakra_attr(chakra_piece(&b));
            break;
        default:
            fail_msg("key %llu in a node", (unsigned long long)key);
        }
    }
    return n;
}

const struct chakra_attr *chakra_attr_of(const struct chakra_node *n, const char *name,
                                         uint32_t kind)
{
    for (size_t k = 0; k < n->attrs; k++)
        if (!strcmp(n->attr[k].name, name)) {
            assert_int_equal(n->attr[k].kind, kind);
            return &n->attr[k];
        }
    fail_msg("%s has no %s", n->name, name);
    return NULL;
}

bool chakra_waits_for(const struct chakra_node *n, uint64_t id)
{
    for (size_t k = 0; k < n->n_deps; k++)
        if (n->deps[k] == id)
            return true;
    return false;
}
