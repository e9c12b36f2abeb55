/* Algorithms as SCCL and TACCL write them: sends step by step. Of random sizes, sound ones have the
 * flows that they should, and are refused when a send is missing, or is there twice. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/random_plan.h"
#include "topologies/msccl.h"

enum { MOST_SENDS = 4096 };

static char path[64];

/* An algorithm by its sends. */
struct drawn {
    enum collective_kind kind;
    uint32_t ranks, addresses;
    size_t sends, steps;
    struct {
        uint32_t step, address, from, to;
    } send[MOST_SENDS];
};

static void add_send(struct drawn *d, size_t step, size_t address, size_t from, size_t to)
{
    assert_true(d->sends < MOST_SENDS);
    d->send[d->sends].step = (uint32_t)step;
    d->send[d->sends].address = (uint32_t)address;
    d->send[d->sends].from = (uint32_t)from;
    d->send[d->sends++].to = (uint32_t)to;
    d->steps = step + 1 > d->steps ? step + 1 : d->steps;
}

/* Around the ring: first sums, then what is summed. */
static void draw_ring(struct drawn *d, enum collective_kind kind, uint32_t ranks, uint32_t each)
{
    size_t step = 0;
    *d = (struct drawn){.kind = kind, .ranks = ranks, .addresses = ranks * each};
    for (size_t k = 1; kind != COLLECTIVE_ALLGATHER && k < ranks; k++, step++)
        for (size_t r = 0; r < ranks; r++) /* address a ends at rank a / each */
            for (size_t e = 0; e < each; e++)
                add_send(d, step, (r + ranks - k) % ranks * each + e, r, (r + 1) % ranks);
    for (size_t k = 0; kind != COLLECTIVE_REDUCESCATTER && k + 1 < ranks; k++, step++)
        for (size_t r = 0; r < ranks; r++)
            for (size_t e = 0; e < each; e++)
                add_send(d, step, (r + ranks - k) % ranks * each + e, r, (r + 1) % ranks);
}

/* Every pair at once; chunk (from, to, e) has an address of its own. */
static void draw_pairs(struct drawn *d, uint32_t ranks, uint32_t each)
{
    *d = (struct drawn){
        .kind = COLLECTIVE_ALLTOALL, .ranks = ranks, .addresses = ranks * ranks * each};
    for (size_t from = 0; from < ranks; from++)
        for (size_t to = 0; to < ranks; to++)
            for (size_t e = 0; e < each && from != to; e++)
                add_send(d, 0, (from * ranks + to) * each + e, from, to);
}

/* A binomial tree, down from rank 0 or up to it. */
static void draw_tree(struct drawn *d, enum collective_kind kind, uint32_t ranks, uint32_t each)
{
    size_t levels = 0, up = kind == COLLECTIVE_REDUCE;
    *d = (struct drawn){.kind = kind, .ranks = ranks, .addresses = each};
    while ((size_t)1 << levels < ranks)
        levels++;
    for (size_t level = 0; level < levels; level++)
        for (size_t r = 0; r < (size_t)1 << level; r++)
            for (size_t e = 0; e < each && r + ((size_t)1 << level) < ranks; e++) {
                size_t far = r + ((size_t)1 << level);
                add_send(d, up ? levels - 1 - level : level, e, up ? far : r, up ? r : far);
            }
}

static void write_ranks(FILE *f, const char *key, uint32_t first, uint32_t n)
{
    fprintf(f, "\"%s\": [", key);
    for (uint32_t r = 0; r < n; r++)
        fprintf(f, "%s%u", r ? ", " : "", first + r);
    fputs("], ", f);
}

static void write_chunk(const struct drawn *d, FILE *f, uint32_t address, uint32_t owner)
{
    bool all = d->kind == COLLECTIVE_ALLREDUCE || d->kind == COLLECTIVE_ALLGATHER ||
               d->kind == COLLECTIVE_BROADCAST;
    uint32_t each = d->addresses / d->ranks, end = 0;
    if (d->kind == COLLECTIVE_REDUCESCATTER)
        end = address / each;
    if (d->kind == COLLECTIVE_ALLTOALL)
        end = address / (each / d->ranks) % d->ranks;
    fputs("{\"sccl_type\": \"chunk\", ", f);
    write_ranks(f, "pre", owner, 1);
    write_ranks(f, "post", all ? 0 : end, all ? d->ranks : 1);
    fprintf(f, "\"addr\": %u}", address);
}

static void write_chunks(const struct drawn *d, FILE *f)
{
    bool summed = d->kind == COLLECTIVE_ALLREDUCE || d->kind == COLLECTIVE_REDUCESCATTER ||
                  d->kind == COLLECTIVE_REDUCE;
    for (uint32_t a = 0; a < d->addresses; a++)
        for (uint32_t r = 0; r < (summed ? d->ranks : 1); r++) {
            uint32_t owner = summed                            ? r
                             : d->kind == COLLECTIVE_BROADCAST ? 0
                                                               : a / (d->addresses / d->ranks);
            fputs(a + r ? ",\n" : "", f);
            write_chunk(d, f, a, owner);
        }
}

/* Send `left_out` is not written, `twice` is written again behind all others. */
static void write_drawn(const struct drawn *d, size_t left_out, size_t twice)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "{\"sccl_type\": \"algorithm\", \"name\": \"drawn\", \"instance\": {\"steps\": 1},\n"
            "\"collective\": {\"sccl_type\": \"collective\", \"nodes\": %u, \"chunks\": [\n",
            d->ranks);
    write_chunks(d, f);
    fputs("]},\n\"steps\": [", f);
    for (size_t step = 0; step < d->steps + (twice < d->sends); step++) {
        const char *between = "";
        fprintf(f, "%s{\"rounds\": 1, \"sends\": [", step ? ",\n" : "");
        for (size_t k = 0; k < d->sends; k++)
            if ((d->send[k].step == step && k != left_out) || (k == twice && step == d->steps)) {
                fprintf(f, "%s[%u, %u, %u, 0, 0]", between, d->send[k].address, d->send[k].from,
                        d->send[k].to);
                between = ", ";
            }
        fputs("]}", f);
    }
    fputs("]}\n", f);
    assert_int_equal(fclose(f), 0);
}

static void draw(uint64_t *seed, struct drawn *d)
{
    static const enum collective_kind kinds[] = {COLLECTIVE_ALLREDUCE,     COLLECTIVE_ALLGATHER,
                                                 COLLECTIVE_REDUCESCATTER, COLLECTIVE_ALLTOALL,
                                                 COLLECTIVE_BROADCAST,     COLLECTIVE_REDUCE};
    enum collective_kind kind = kinds[random_below(seed, 6)];
    uint32_t ranks = 2 + random_below(seed, 9), each = 1 + random_below(seed, 3);
    if (kind == COLLECTIVE_ALLTOALL)
        draw_pairs(d, ranks, each);
    else if (kind == COLLECTIVE_BROADCAST || kind == COLLECTIVE_REDUCE)
        draw_tree(d, kind, ranks, each);
    else
        draw_ring(d, kind, ranks, each);
}

static void drawn_ones_are_read_and_broken_ones_refused(void **state)
{
    static struct drawn d;
    uint64_t seed = 43;
    for (int round = 0; round < 150; round++) {
        struct steps_algorithm a = {0};
        double sent = 0;
        draw(&seed, &d);
        write_drawn(&d, SIZE_MAX, SIZE_MAX);
        if (msccl_read(path, &a) != STATUS_OK)
            fail_msg("round %d: %s", round, error_message());
        assert_int_equal(a.kind, d.kind);
        assert_int_equal(a.ranks, d.ranks);
        assert_int_equal(a.chunks,
                         d.kind == COLLECTIVE_ALLTOALL ? d.addresses / d.ranks : d.addresses);
        assert_int_equal(a.phases, d.steps);
        for (size_t k = 0; k < a.phase_start[a.phases]; k++)
            sent += a.flow[k].chunks;
        assert_int_equal((size_t)(sent + 0.5), d.sends);
        steps_free(&a);
        size_t k = random_below(&seed, (uint32_t)d.sends);
        write_drawn(&d, k, SIZE_MAX);
        assert_int_equal(msccl_read(path, &a), STATUS_PARSE);
        assert_non_null(strstr(error_message(), "rank"));
        assert_non_null(strstr(error_message(), "chunk"));
        if (d.kind != COLLECTIVE_REDUCESCATTER && d.kind != COLLECTIVE_REDUCE)
            continue;
        write_drawn(&d, SIZE_MAX, k); /* what was summed is sent and summed again */
        assert_int_equal(msccl_read(path, &a), STATUS_PARSE);
        assert_non_null(strstr(error_message(), "twice"));
    }
}

static enum status read_once(void)
{
    struct steps_algorithm a = {0};
    enum status st = msccl_read(path, &a);
    steps_free(&a);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    static struct drawn d;
    draw_ring(&d, COLLECTIVE_ALLREDUCE, 3, 1);
    write_drawn(&d, SIZE_MAX, SIZE_MAX);
    FOR_EACH_ALLOC_FAILURE(read_once());
}

/* Digits and other bytes changed at random: refused or sound, nothing else. */
static void any_text_is_taken_or_refused(void **state)
{
    static struct drawn d;
    uint64_t seed = 44;
    char text[4096];
    draw_ring(&d, COLLECTIVE_ALLREDUCE, 3, 1);
    write_drawn(&d, SIZE_MAX, SIZE_MAX);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text, f), sound = 0;
    assert_int_equal(fclose(f), 0);
    assert_true(n < sizeof text);
    for (int round = 0; round < 2000; round++) {
        char changed[sizeof text];
        memcpy(changed, text, n);
        for (uint32_t k = random_below(&seed, 3) + 1; k > 0; k--) {
            char *at = changed + random_below(&seed, (uint32_t)n);
            while (random_below(&seed, 8) > 0 && (*at < '0' || *at > '9'))
                at = changed + random_below(&seed, (uint32_t)n);
            *at = (char)(random_below(&seed, 8) ? '0' + random_below(&seed, 10)
                                                : 1 + random_below(&seed, 126));
        }
        f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fwrite(changed, 1, n, f), n);
        assert_int_equal(fclose(f), 0);
        enum status st = read_once();
        assert_true(st == STATUS_OK || st == STATUS_PARSE);
        sound += st == STATUS_OK;
    }
    assert_true(sound > 0 && sound < 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_ones_are_read_and_broken_ones_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(any_text_is_taken_or_refused),
    };
    snprintf(path, sizeof path, "msccl-%ld.json", (long)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
