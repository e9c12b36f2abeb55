/* PipeDream's driver files as files of runs, where memory ends anywhere; tests/run_config.sh has
 * what they mean. */
#include "study/run_config.h"

#include <stdio.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

static const char path[] = BINARY_DIR "/test_driver.yml";
static const char conf[] = BINARY_DIR "/test_driver.json";

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

static void driver_files_survive_every_failing_allocation(void **state)
{
    write_file(conf,
               "{\"module_to_stage_map\": [0, 1, 1], \"stage_to_rank_map\": {\"0\": [0, 1, 2], "
               "\"1\": [3]}}");
    write_file(path, "'log_directory': 'runs'\n'module': 'models.tiny.gpus=4'\n"
                     "'config_file': 'test_driver.json'\n'container': 'pytorch:19.05-py3'\n"
                     "'machines': ['localhost:0', 'localhost:1', 'localhost:2', 'localhost:3']\n"
                     "'batch_size': 2\n'learning_rate': 0.01\n'weight_decay': 0.0005\nepochs: 6\n"
                     "'learning_rate_policy': 'polynomial'\n'model_type': 'image_classification'\n"
                     "model: \"gpt-tiny:layers=2,hidden=32,tokens=32\"\nplan.split-at: h1.ln1\n");
    if (read_and_free() != STATUS_OK)
        fail_msg("%s", error_message());
    FOR_EACH_ALLOC_FAILURE(read_and_free());
    unlink(path);
    unlink(conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(driver_files_survive_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
