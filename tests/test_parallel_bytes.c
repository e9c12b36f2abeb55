/* What a program says that collectives move is what runs hand to them, byte for byte: random ways
 * to spread a model. */
#include <math.h>
#include <stdio.h>

#include "core/base/random.h"
#include "exec/ring.h"
#include "model/zoo.h"
#include "tests/cmocka.h"
#include "tests/trained.h"

/* Bytes that all shards of the op's replica move of it, divided by their number. */
static double mean_moved(const struct trained *t, uint32_t rank, size_t i)
{
    const struct program *p = &t->mesh.program;
    const struct program_rank *r = &p->rank[rank];
    uint32_t shards = p->stage[r->stage].tensor_parallel, first = rank - r->shard;
    double sum = 0;
    for (uint32_t k = 0; k < shards; k++) /* they run the same list */
        sum += (double)t->moved[p->op_start[first + k] + (i - p->op_start[rank])];
    return sum / shards;
}

/* Bucket, among those of stage s, of the op at this position of the stage. */
static uint32_t bucket_with(const struct program *p, const struct program_stage *s, size_t position)
{
    uint32_t b = 0;
    while (p->bucket[s->bucket + b].low > position)
        b++;
    return b;
}

/* Weights in other buckets of the stage that the ops of bucket b share: each owner's bucket once.
 */
static int64_t borrowed_by(const struct trained *t, uint32_t stage, uint32_t b)
{
    const struct program *p = &t->mesh.program;
    const struct program_stage *s = &p->stage[stage];
    const uint32_t *op = p->stage_op + p->stage_start[stage];
    size_t n = p->stage_start[stage + 1] - p->stage_start[stage];
    int64_t bytes = 0;
    for (size_t k = 0; k < n; k++) {
        bool borrowed = false;
        for (size_t i = 0; i < n && bucket_with(p, s, k) != b; i++)
            borrowed |= t->model->op[op[i]].shares == op[k] && bucket_with(p, s, i) == b;
        bytes += borrowed ? p->bucket[s->bucket + bucket_with(p, s, k)].bytes : 0;
    }
    return bytes;
}

/* What the buckets say that a collective moves. */
static int64_t said_of(const struct trained *t, const struct program_op *o, uint8_t part_before)
{
    const struct program *p = &t->mesh.program;
    const struct program_stage *s = &p->stage[o->stage];
    uint32_t part = s->zero >= 2 || o->purpose == FOR_SHARDS ? o->part
                    : o->purpose == FOR_DATA                 ? part_before
                                                             : 0;
    int64_t bytes = 0;
    for (uint32_t b = 0; b < s->buckets; b++)
        if (s->buckets == 1 || part == 0 || b + 1 == part)
            bytes += p->bucket[s->bucket + b].bytes;
    bool whole = s->buckets == 1 || part == 0 || o->purpose == FOR_DATA;
    return bytes + (whole || s->keep ? 0 : borrowed_by(t, o->stage, part - 1));
}

/* Gradients of the parameters that all shards have. */
static int64_t whole_bytes(const struct trained *t, uint32_t stage)
{
    const struct program *p = &t->mesh.program;
    int64_t bytes = 0;
    for (size_t k = p->stage_start[stage]; k < p->stage_start[stage + 1]; k++) {
        const struct model_op *o = &t->model->op[p->stage_op[k]];
        bytes += o->tensor == TENSOR_WHOLE ? o->parameter_bytes : 0;
    }
    return bytes;
}

static void check_moved(const struct trained *t, const char *name)
{
    const struct program *p = &t->mesh.program;
    for (uint32_t r = 0; r < p->ranks; r++)
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
            const struct program_op *o = &p->op[i];
            if (!op_is_collective(o))
                continue;
            if (o->purpose == FOR_TENSOR || o->purpose == FOR_PIPELINE) {
                /* the mean of its calls, rounded down */
                int64_t less = t->moved[i] - o->count * o->bytes, whole = whole_bytes(t, o->stage);
                bool sums = p->stage[o->stage].sequence && less >= whole;
                less -= sums ? whole : 0; /* which the program does not count: they are few */
                if (less < 0 || less >= o->count)
                    fail_msg("%s: %u sums of %lld bytes, moved %lld", name, o->count,
                             (long long)o->bytes, (long long)t->moved[i]);
                continue;
            }
            if (o->purpose == FOR_TIES) {
                if (mean_moved(t, r, i) != (double)o->bytes)
                    fail_msg("%s: ties of %lld bytes, moved %g", name, (long long)o->bytes,
                             mean_moved(t, r, i));
                continue;
            }
            int64_t said = said_of(t, o, i > 0 ? p->op[i - 1].part : 0);
            if (o->purpose == FOR_DATA)
                said = program_reduced_bytes(p, said);
            const struct program_stage *s = &p->stage[o->stage];
            if (o->purpose == FOR_DATA && o->kind == OP_ALLREDUCE && s->zero > 0) {
                /* chunks of a bucket differ by a number */
                said = program_reduced_bytes(
                    p, p->bucket[s->bucket + (o->part ? o->part - 1u : 0)].bytes);
                if (said / s->group != o->bytes ||
                    fabs(mean_moved(t, r, i) - (double)o->bytes) > (double)p->reduce_bytes)
                    fail_msg("%s: rank %u op %zu: groups sum %lld bytes, moved %g", name, r,
                             i - p->op_start[r], (long long)o->bytes, mean_moved(t, r, i));
                continue;
            }
            int64_t rest = said - o->count * o->bytes; /* of the mean of calls, rounded down */
            double more = mean_moved(t, r, i) - (double)said; /* the mean of shards, rounded down */
            if (rest < 0 || rest >= o->count || more < 0 ||
                more >= (p->reduce_bytes != p->number_bytes ? 1 : 1e-9))
                fail_msg("%s: rank %u op %zu: bucket of %lld bytes, op of %lld, moved %g", name, r,
                         i - p->op_start[r], (long long)said, (long long)o->bytes,
                         mean_moved(t, r, i));
        }
}

/* The parts of the replicas are the chunks of the ring, and together the whole. */
static void check_parts(uint32_t replicas, size_t n)
{
    size_t sum = 0;
    for (uint32_t k = 0; k < replicas; k++) {
        struct program_range own = program_zero_part(n, replicas, k);
        struct ring_part chunk = ring_part(n, replicas, ring_owned(replicas, k));
        assert_int_equal(own.first, chunk.first);
        assert_int_equal(own.n, chunk.n);
        sum += own.n;
    }
    assert_int_equal(sum, n);
}

static void what_is_lowered_is_what_is_moved(void **state)
{
    struct model m[2] = {0};
    assert_int_equal(zoo_build(gpt, &m[0]), STATUS_OK);
    assert_int_equal(zoo_build(bert, &m[1]), STATUS_OK);
    uint64_t drawn = 0;
    size_t in_parts = 0, shared = 0, groups = 0, by_rows = 0, in_pieces = 0;
    for (size_t k = 0; k < 80; k++) {
        struct partition_request how = request_of("");
        how.reduce_dtype = k % 5 < 2 ? DATA_bf16 : DATA_ANY;
        how.tensor_parallel = 1u << random_at(7, drawn++) % 3;
        how.replicas = 1 + (uint32_t)(random_at(7, drawn++) % (how.tensor_parallel == 1 ? 4 : 2));
        how.stages = 1 + random_at(7, drawn++) % 2;
        how.stages = how.stages * how.tensor_parallel * how.replicas > MESH_RANKS ? 1 : how.stages;
        how.zero = (uint32_t)(random_at(7, drawn++) % 4);
        bool ties = k % 2 == 1 && how.stages > 1; /* of weights whose gradients are whole */
        how.zero = MICROBATCHES % how.replicas == 0 && !ties ? how.zero : how.zero % 2;
        uint64_t most = (uint64_t)1 << random_at(7, drawn++) % 18; /* smaller than any op, too */
        how.bucket_bytes = k % 4 < 3 ? 1 + (int64_t)(random_at(7, drawn++) % most) : 0;
        how.bucket_bytes = ties && how.zero > 0 ? 0 : how.bucket_bytes;
        how.zero_keep = random_at(7, drawn++) % 3 == 0 && how.zero % 2 == 1;
        how.zero_group = how.replicas == 4 && random_at(7, drawn++) % 2 && how.zero > 0 ? 2 : 0;
        how.recompute = random_at(7, drawn++) % 3 ? RECOMPUTE_NONE : RECOMPUTE_FULL;
        how.recompute_unit = (uint32_t)(random_at(7, drawn++) % 4);
        how.recompute_layers = (uint32_t)(random_at(7, drawn++) % 3);
        how.sequence_parallel = how.tensor_parallel > 1 && random_at(8, k) % 2;
        how.p2p_scatter = how.stages > 1 && how.tensor_parallel > 1 && !how.sequence_parallel &&
                          random_at(9, k) % 2;
        by_rows += how.sequence_parallel;
        in_pieces += how.p2p_scatter;
        struct trained t;
        char name[160];
        snprintf(name, sizeof name,
                 "%zu stages x %u replicas (groups of %u) x %u shards%s%s, ZeRO %u%s, recompute %d "
                 "of %u, "
                 "%lld bytes",
                 how.stages, how.replicas, how.zero_group, how.tensor_parallel,
                 how.sequence_parallel ? " by rows" : "", how.p2p_scatter ? " in parts" : "",
                 how.zero, how.zero_keep ? " kept" : "", how.recompute, how.recompute_unit,
                 (long long)how.bucket_bytes);
        groups += how.zero_group > 0;
        train(&m[k % 2], name, &how, 1, &t);
        check_moved(&t, name);
        for (size_t b = 0; b < t.mesh.program.buckets; b++)
            check_parts(how.replicas, (size_t)t.mesh.program.bucket[b].bytes / sizeof(float));
        in_parts += t.buckets > 1;
        shared += t.mesh.program.stage[0].zero > 0;
        trained_free(&t);
    }
    assert_true(in_parts > 4 && shared > 4 && groups > 2 && by_rows > 9 && in_pieces > 2);
    model_free(&m[0]);
    model_free(&m[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_lowered_is_what_is_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
