/* How files name each other: paths relative to the file, and no path of the machine. */
#include "core/base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/fault.h"

/* A folder with in/model.txt and in/net.xml, which is the current directory. */
static char root[] = "/tmp/foreline-path-XXXXXX";

static int enter(void **state)
{
    if (!mkdtemp(root) || chdir(root) != 0 || mkdir("in", 0700) != 0 || mkdir("out", 0700) != 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(i ? "in/net.xml" : "in/model.txt", "w");
        if (!f || fputs("abc", f) < 0 || fclose(f) != 0)
            return -1;
    }
    return 0;
}

static int leave(void **state)
{
    return unlink("in/net.xml") || unlink("in/model.txt") || rmdir("in") || rmdir("out") ||
           chdir("/") || rmdir(root);
}

static void expect_reference(const char *reference, const char *file, const char *expected)
{
    char *out = NULL;
    assert_int_equal(path_reference(reference, file, &out), STATUS_OK);
    assert_string_equal(out, expected);
    free(out);
}

static void expect_found(const char *reference, const char *file, const char *expected)
{
    char *out = NULL;
    assert_int_equal(path_find(reference, file, &out), STATUS_OK);
    assert_string_equal(out, expected);
    free(out);
}

static void names_stay_and_paths_are_relative_to_the_file(void **state)
{
    char absolute[128];
    expect_reference("gpt-tiny:layers=4", "out/plan.json", "gpt-tiny:layers=4");
    expect_reference("two-racks@uplink.bandwidth=1.5Gbps", "out/plan.json",
                     "two-racks@uplink.bandwidth=1.5Gbps");
    expect_reference("in", "out/plan.json", "in"); /* a folder is no model */
    expect_reference("in/missing.txt", "out/plan.json", "in/missing.txt");
    expect_reference("in/model.txt", "plan.json", "in/model.txt");
    expect_reference("in/model.txt", "-", "in/model.txt");
    expect_reference("in/model.txt", "out/plan.json", "../in/model.txt");
    expect_reference("in/model.txt", "in/plan.json", "model.txt");
    expect_reference("in/net.xml@devices=2", "out/plan.json", "../in/net.xml@devices=2");
    expect_reference("in/net.xml:tokens=8,layers=2", "out/plan.json",
                     "../in/net.xml:tokens=8,layers=2");
    snprintf(absolute, sizeof absolute, "%s/in/model.txt", root);
    expect_reference(absolute, "out/plan.json", "../in/model.txt");
    expect_reference(absolute, "plan.json", "in/model.txt");
    expect_reference(absolute, "-", "in/model.txt");
}

static void references_are_found_beside_the_file_then_from_here(void **state)
{
    char absolute[128];
    expect_found("gpt-tiny", "out/plan.json", "gpt-tiny");
    expect_found("../in/model.txt", "out/plan.json", "out/../in/model.txt");
    expect_found("model.txt", "in/plan.json", "in/model.txt");
    expect_found("../in/net.xml@devices=2", "out/plan.json", "out/../in/net.xml@devices=2");
    expect_found("in/model.txt", "out/plan.json", "in/model.txt"); /* as version 0.1.0 wrote it */
    expect_found("in/model.txt", "-", "in/model.txt");
    snprintf(absolute, sizeof absolute, "%s/in/model.txt", root);
    expect_found(absolute, "out/plan.json", absolute);
}

static void expect_seen(const char *reference, const char *file, const char *expected)
{
    char *out = NULL;
    assert_int_equal(path_seen(reference, file, &out), STATUS_OK);
    assert_string_equal(out, expected);
    free(out);
}

static void people_see_files_from_the_current_directory(void **state)
{
    char absolute[128];
    expect_seen("gpt-tiny", "out/plan.json", "gpt-tiny");
    expect_seen("../in/net.xml@devices=2", "out/plan.json", "in/net.xml@devices=2");
    expect_seen("in/model.txt", "plan.json", "in/model.txt");
    snprintf(absolute, sizeof absolute, "%s/in/model.txt", root);
    expect_seen(absolute, "out/plan.json", "in/model.txt");
    assert_int_equal(chdir("out"), 0);
    expect_seen(absolute, "plan.json", "../in/model.txt");
    assert_int_equal(chdir("/"), 0);
    expect_seen(absolute, "plan.json", "model.txt");
    assert_int_equal(chdir(root), 0);
}

static void only_files_have_a_hash(void **state)
{
    char hex[PATH_HASH];
    path_hash("in/net.xml@devices=2", hex); /* FIPS 180-2, appendix B.1: "abc" */
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    path_hash("gpt-tiny", hex);
    assert_string_equal(hex, "");
}

static void expect_label(const char *word, const char *expected)
{
    char out[256];
    path_label(word, out, sizeof out);
    assert_string_equal(out, expected);
}

static void words_of_a_command_name_no_path_of_the_machine(void **state)
{
    char word[128];
    expect_label("plan", "plan");
    expect_label("../x/y", "../x/y");
    expect_label("--steps=3", "--steps=3");
    expect_label("/", "/");
    snprintf(word, sizeof word, "%s/in/model.txt", root);
    expect_label(word, "in/model.txt");
    snprintf(word, sizeof word, "goal=%s/in/", root);
    expect_label(word, "goal=in");
    expect_label(root, ".");
    expect_label("/tmp/other/a.json", "../other/a.json");
    expect_label("/no-such-folder/here/a.json", "a.json");
    expect_label("--model=/no-such-folder/a.json", "--model=a.json");
}

static void names_of_files_lead_nowhere(void **state)
{
    static const char *const good[] = {"a", "two racks", "-x", "a.b..c", "\xc3\xa4"};
    static const char *const bad[] = {"", ".", "..", ".x", "../x", "/x", "a/b", "a\nb", "\x1b[2J"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(path_is_name(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(path_is_name(bad[i]));
}

static enum status convert(void)
{
    enum status st;
    char *out = NULL;
    TRY(path_reference("in/model.txt", "out/plan.json", &out));
    free(out);
    out = NULL;
    TRY(path_find("model.txt", "in/plan.json", &out));
    free(out);
    out = NULL;
    TRY(path_seen("../in/model.txt", "out/plan.json", &out));
out:
    free(out);
    return st;
}

static void survives_failing_allocations(void **state)
{
    FOR_EACH_ALLOC_FAILURE(convert());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_stay_and_paths_are_relative_to_the_file),
        cmocka_unit_test(references_are_found_beside_the_file_then_from_here),
        cmocka_unit_test(people_see_files_from_the_current_directory),
        cmocka_unit_test(only_files_have_a_hash),
        cmocka_unit_test(words_of_a_command_name_no_path_of_the_machine),
        cmocka_unit_test(names_of_files_lead_nowhere),
        cmocka_unit_test(survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
