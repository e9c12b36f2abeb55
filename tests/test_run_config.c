/* Files of runs, where memory ends anywhere; tests/run_config.sh has
 * what they mean. */
#include "study/run_config.h"

#include <stdio.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

static const char path[] = BINARY_DIR "/test_run_config.yml";

static void write_file(const char *to, const char *text)
{
    struct file_out f;
    assert_int_equal(file_create(to, &f), STATUS_OK);
    fputs(text, f.stream);
    assert_int_equal(file_commit(&f), STATUS_OK);
}

static enum status read_and_free(void)
{
    struct run_config c = {0};
    struct arguments run = arguments_defaults(TAKES(KEY_RUN));
    enum status st = run_config_read(path, &run, &c);
    run_config_free(&c);
    return st;
}

static void survives_every_failing_allocation(void **state)
{
    write_file(path,
               "name: try\nmodel: mlp\nplatform: laptop\nplan: {algorithm: balanced, stages: 2, "
               "microbatches: 4}\nfolder: runs\ncompute: paced\nsteps: 2\nwarmup: 1\n");
    if (read_and_free() != STATUS_OK)
        fail_msg("%s", error_message());
    FOR_EACH_ALLOC_FAILURE(read_and_free());
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
