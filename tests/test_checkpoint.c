/* Files of checkpoints: what is written is read, and no byte may change, be missing or be added. */
#include "exec/checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/provenance.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"

enum { N = 5, FILE_ROOM = 4096 };

/* A device of two arrays. */
struct two {
    float parameter[N];
    uint32_t updates;
};

static bool state(void *self, size_t index, struct device_state *out)
{
    const struct two *t = self;
    if (index > 1)
        return false;
    *out = index == 0 ? (struct device_state){3, STATE_PARAMETERS, sizeof t->parameter}
                      : (struct device_state){3, STATE_UPDATES, sizeof t->updates};
    return true;
}

static enum status save(void *self, size_t index, void *data)
{
    const struct two *t = self;
    memcpy(data, index == 0 ? (const void *)t->parameter : &t->updates,
           index == 0 ? sizeof t->parameter : sizeof t->updates);
    return STATUS_OK;
}

static enum status load(void *self, size_t index, const void *data)
{
    struct two *t = self;
    memcpy(index == 0 ? (void *)t->parameter : &t->updates, data,
           index == 0 ? sizeof t->parameter : sizeof t->updates);
    return STATUS_OK;
}

static const struct device device_two = {.name = "two", .state = state, .save = save, .load = load};

struct fixture {
    char root[64], directory[80], file[112];
    struct two written, read;
    struct checkpoint_part part;
};

static void begin(struct fixture *f)
{
    *f = (struct fixture){.written = {{1, 2, 3, 4, 5}, 7}};
    strcpy(f->root, "/tmp/checkpoint-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    snprintf(f->directory, sizeof f->directory, "%s/step-00000009", f->root);
    snprintf(f->file, sizeof f->file, "%s/rank-0002.ckpt", f->directory);
    f->part = (struct checkpoint_part){.step_directory = f->directory,
                                       .rank = 2,
                                       .step = 9,
                                       .key = {{1}, {2}, "adam", 4},
                                       .device = &device_two,
                                       .device_self = &f->written};
}

static void finish(struct fixture *f)
{
    unlink(f->file);
    rmdir(f->directory);
    assert_int_equal(rmdir(f->root), 0); /* nothing else was left */
}

static enum status read_back(struct fixture *f)
{
    f->part.device_self = &f->read;
    enum status st = checkpoint_load(&f->part);
    f->part.device_self = &f->written;
    return st;
}

static size_t slurp(const char *path, unsigned char data[FILE_ROOM])
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(data, 1, FILE_ROOM, f);
    fclose(f);
    return n;
}

static void what_is_written_is_read(void **context)
{
    (void)context;
    struct fixture f;
    begin(&f);
    assert_int_equal(checkpoint_save(&f.part), STATUS_OK);
    assert_int_equal(read_back(&f), STATUS_OK);
    assert_memory_equal(&f.read, &f.written, sizeof f.written);
    finish(&f);
}

/* Every byte in turn, and every length. */
static void no_byte_may_change_or_be_missing(void **context)
{
    (void)context;
    struct fixture f;
    unsigned char data[FILE_ROOM];
    begin(&f);
    assert_int_equal(checkpoint_save(&f.part), STATUS_OK);
    size_t n = slurp(f.file, data);
    for (size_t k = 0; k < n; k++) {
        data[k] ^= 0x10;
        put_bytes(f.file, data, n);
        assert_int_equal(read_back(&f), STATUS_PARSE);
        data[k] ^= 0x10;
        put_bytes(f.file, data, k);
        assert_int_equal(read_back(&f), STATUS_PARSE);
    }
    data[n] = 0;
    put_bytes(f.file, data, n + 1);
    assert_int_equal(read_back(&f), STATUS_PARSE);
    put_bytes(f.file, data, n);
    assert_int_equal(read_back(&f), STATUS_OK);
    finish(&f);
}

static void what_belongs_to_another_run_is_refused(void **context)
{
    (void)context;
    struct checkpoint_key other = {{1}, {2}, "sgd", 4, PARTS_RING},
                          key = {{1}, {2}, "adam", 4, PARTS_RING};
    assert_int_equal(checkpoint_match(&key, &key, "x"), STATUS_OK);
    assert_int_equal(checkpoint_match(&other, &key, "x"), STATUS_INVALID);
    assert_message(error_message(), "x checkpoint 'sgd' 'adam'");
    other = key;
    other.ranks = 3;
    assert_int_equal(checkpoint_match(&other, &key, "x"), STATUS_INVALID);
    assert_message(error_message(), "x checkpoint 3 4");
    other = key;
    other.model[DIGEST - 1] = 1;
    assert_int_equal(checkpoint_match(&other, &key, "x"), STATUS_INVALID);
    assert_message(error_message(), "x checkpoint model");
    other = key;
    other.plan[0] = 0;
    assert_int_equal(checkpoint_match(&other, &key, "x"), STATUS_INVALID);
    other = key;
    other.parts = PARTS_NCCL;
    assert_int_equal(checkpoint_match(&other, &key, "x"), STATUS_INVALID);
    assert_message(error_message(), "x --collective nccl");
}

/* The parts of NCCL's collectives are other ones only where ZeRO divides something. */
static void who_owns_what_is_part_of_the_key(void **context)
{
    (void)context;
    struct program_stage stage[2] = {{.zero = 0}};
    static char optimizer[] = "sgd";
    struct program p = {.stages = 2, .stage = stage, .optimizer = optimizer};
    struct model m = {.name = NULL};
    struct checkpoint_key key;
    for (uint32_t zero = 0; zero <= 3; zero++) {
        stage[1].zero = zero;
        for (int own = 0; own < 2; own++) {
            assert_int_equal(checkpoint_key(&p, &m, own, &key), STATUS_OK);
            assert_int_equal(key.parts, own && zero > 0 ? PARTS_NCCL : PARTS_RING);
        }
    }
}

static void the_newest_complete_step_counts(void **context)
{
    (void)context;
    struct fixture f;
    struct checkpoint c = {0}, found = {0};
    uint8_t digest[4 * DIGEST] = {5};
    char path[CHECKPOINT_PATH], manifest[CHECKPOINT_PATH + 16];
    const struct provenance *by = &(const struct provenance){.version = "v", .command = "c"};
    begin(&f);
    assert_int_equal(checkpoint_find(f.root, &found), STATUS_IO);
    for (uint64_t step = 8; step <= 9; step++) {
        f.part.step = step;
        assert_int_equal(checkpoint_directory(f.root, step, path), STATUS_OK);
        f.part.step_directory = path;
        assert_int_equal(checkpoint_save(&f.part), STATUS_OK);
        if (step == 9)
            break; /* no manifest */
        f.part.key.parts = PARTS_NCCL;
        c = (struct checkpoint){.step = step, .key = f.part.key, .digest = digest};
        strcpy(c.directory, path);
        assert_int_equal(checkpoint_commit(&c, by), STATUS_OK);
    }
    assert_int_equal(checkpoint_find(f.root, &found), STATUS_OK);
    assert_int_equal(found.step, 8);
    assert_int_equal(checkpoint_match(&found.key, &c.key, "x"), STATUS_OK);
    assert_memory_equal(found.digest, digest, sizeof digest);
    checkpoint_free(&found);
    checkpoint_clean(f.root, 8);
    assert_int_equal(access(f.file, F_OK), 0); /* may be under way */
    checkpoint_clean(f.root, 9);
    assert_int_not_equal(access(f.file, F_OK), 0);
    snprintf(manifest, sizeof manifest, "%s/manifest.json", c.directory);
    assert_int_equal(unlink(manifest), 0);
    checkpoint_clean(f.root, UINT64_MAX);
    finish(&f);
}

static void survives_every_failing_allocation(void **context)
{
    (void)context;
    struct fixture f;
    begin(&f);
    FOR_EACH_ALLOC_FAILURE(checkpoint_save(&f.part));
    FOR_EACH_ALLOC_FAILURE(read_back(&f));
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(no_byte_may_change_or_be_missing),
        cmocka_unit_test(what_belongs_to_another_run_is_refused),
        cmocka_unit_test(who_owns_what_is_part_of_the_key),
        cmocka_unit_test(the_newest_complete_step_counts),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
