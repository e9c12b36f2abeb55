/* Every JSON file of ours: round trips byte for byte, survives truncation at every byte, names the
 * place of a fault, and gives its memory back when any allocation fails. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <unistd.h>

#include <jansson.h>

#include "core/base/file.h"
#include "core/base/provenance.h"
#include "core/base/random.h"
#include "core/data/measurement.h"
#include "core/data/model.h"
#include "core/data/plan.h"
#include "core/data/program.h"
#include "core/data/topology.h"
#include "core/data/trace.h"
#include "core/lower/lower.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"
#include "tests/sample.h"

static const struct provenance by = {"foreline test", "test \"quoted\\ \x01 \xc3\xa9", NULL, 7};

struct fixture {
    struct model model;
    struct topology topology;
    struct plan plan;
    struct program program;
    struct measurement measurement;
    char dir[64];
};

static struct fixture f;

static const char *in_dir(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", f.dir, name);
    return path;
}

static int set_up(void **state)
{
    f.model = sample_chain(6, 1e-3, 2e-3, 1000, 500);
    f.topology = sample_clique(4, 1e-6, 1e9);
    f.plan = sample_plan(&f.model, 2, 2, 4, "1f1b");
    strcpy(f.dir, "/tmp/foreline-files-XXXXXX");
    if (!mkdtemp(f.dir) || plan_lower(&f.plan, &f.model, &f.topology, &f.program) != STATUS_OK)
        return -1;
    struct timeline t;
    if (timeline_init(&t, f.program.ops) != STATUS_OK ||
        measurement_from_timeline(&f.program, &t, &f.measurement) != STATUS_OK ||
        measurement_add_calls(&f.measurement, &f.program, &t) != STATUS_OK)
        return -1;
    timeline_free(&t);
    f.measurement.call[0].algorithm = sample_text("ring");
    f.measurement.rank[0].memory_bytes = 1 << 20;
    f.measurement.rank[0].loss = calloc(2, sizeof(double)); /* the others have none */
    if (!f.measurement.rank[0].loss)
        return -1;
    f.measurement.rank[0].losses = 2;
    f.measurement.rank[0].loss[1] = -0.5;
    f.measurement.not_folded = sample_text("jitter");
    f.measurement.engine = sample_text("analytic");
    f.measurement.plan = sample_text("p.json");
    return measurement_warn(&f.measurement, "careful: %d", 3) == STATUS_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    measurement_free(&f.measurement);
    program_free(&f.program);
    plan_free(&f.plan);
    topology_free(&f.topology);
    model_free(&f.model);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", f.dir);
    return system(command);
}

/* One kind of file: write the fixture's object; read a path into nothing, or write what was read.
 */
struct kind {
    const char *name;
    enum status (*write)(const char *path);
    enum status (*read)(const char *path, const char *copy);
};

static enum status write_model(const char *path)
{
    return model_write(&f.model, path, &by);
}

static enum status read_model(const char *path, const char *copy)
{
    struct model m = {0};
    enum status st = model_read(path, &m);
    if (st == STATUS_OK && copy)
        st = model_write(&m, copy, &by);
    model_free(&m);
    return st;
}

static enum status write_plan(const char *path)
{
    return plan_write(&f.plan, &f.model, &f.topology, path, &by);
}

static enum status read_plan(const char *path, const char *copy)
{
    struct json_document d = {0};
    struct plan p = {0};
    enum status st = json_read(path, plan_format, PLAN_VERSION, &d);
    if (st == STATUS_OK)
        st = plan_read(&d, &f.model, &f.topology, &p);
    if (st == STATUS_OK && copy)
        st = plan_write(&p, &f.model, &f.topology, copy, &by);
    plan_free(&p);
    json_document_free(&d);
    return st;
}

static int takes_memory(void *unused)
{
    enum { MANY = 10000 };
    json_t *all = json_array();
    for (int i = 0; i < MANY; i++)
        json_array_append_new(all, json_string("a value of a program that uses jansson, too"));
    bool right = json_array_size(all) == MANY;
    json_decref(all);
    return right;
}

/* The memory of values is counted while a document is read, in its thread; libforeline's programs
 * have threads. */
static void jansson_is_as_before_for_others(void **state)
{
    struct json_document d = {0};
    thrd_t other;
    int right = 0;
    assert_int_equal(limits_set("size=1e-12"), STATUS_OK);
    assert_int_equal(json_parse("x", "", 0, NULL, 0, &d), STATUS_PARSE);
    assert_message(error_message(), "values take more than 2.4e-10 MiB");
    assert_true(takes_memory(NULL));
    assert_int_equal(limits_set("size=1"), STATUS_OK);
    assert_int_equal(json_parse("x", "{\"a\": []}", 9, NULL, 0, &d), STATUS_OK);
    assert_int_equal(thrd_create(&other, takes_memory, NULL), thrd_success);
    assert_int_equal(thrd_join(other, &right), thrd_success);
    assert_true(right);
    json_document_free(&d);
}

/* Of 2^18 members, and of one more in the third line; colons and brackets within texts are none. */
static void objects_of_too_many_members_are_refused(void **state)
{
    for (size_t more = 0; more < 2; more++) {
        struct json_document d = {0};
        char *text = NULL;
        size_t n, members = ((size_t)1 << 18) + more;
        FILE *to = open_memstream(&text, &n);
        assert_non_null(to);
        fputs("{\"a\": \"{:[\\\":{\",\n\"b\": [{}, {\"c:\": {\"d\": 1}}],\n", to);
        for (size_t i = 2; i < members; i++)
            fprintf(to, "\"k%zu\":1%s", i, i + 1 < members ? "," : "}");
        assert_int_equal(fclose(to), 0);
        assert_int_equal(json_parse("x", text, n, NULL, 0, &d), more ? STATUS_PARSE : STATUS_OK);
        if (more)
            assert_message(error_message(), "x:3 262144 members");
        json_document_free(&d);
        free(text);
    }
}

static enum status write_program(const char *path)
{
    return program_write(&f.program, path, &by);
}

static enum status read_program(const char *path, const char *copy)
{
    struct program p = {0};
    enum status st = program_read(path, &p);
    if (st == STATUS_OK && copy)
        st = program_write(&p, copy, &by);
    program_free(&p);
    return st;
}

static enum status write_measurement(const char *path)
{
    return measurement_write(&f.measurement, path, &by);
}

static enum status read_measurement(const char *path, const char *copy)
{
    struct measurement m = {0};
    enum status st = measurement_read(path, &m);
    if (st == STATUS_OK && copy)
        st = measurement_write(&m, copy, &by);
    measurement_free(&m);
    return st;
}

static const struct kind kinds[] = {
    {"model", write_model, read_model},
    {"plan", write_plan, read_plan},
    {"program", write_program, read_program},
    {"measurement", write_measurement, read_measurement},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void reading_and_writing_again_gives_the_same_bytes(void **state)
{
    for (size_t k = 0; k < KINDS; k++) {
        char *a, *b, path[128];
        size_t n, m;
        strcpy(path, in_dir("a"));
        if (kinds[k].write(path) != STATUS_OK || kinds[k].read(path, in_dir("b")) != STATUS_OK)
            fail_msg("%s: %s", kinds[k].name, error_message());
        assert_int_equal(file_read(path, &a, &n), STATUS_OK);
        assert_int_equal(file_read(in_dir("b"), &b, &m), STATUS_OK);
        assert_string_equal(a, b);
        free(a);
        free(b);
    }
}

static void a_file_cut_at_any_byte_is_a_clean_error(void **state)
{
    for (size_t k = 0; k < KINDS; k++) {
        char *text, path[128];
        size_t n;
        strcpy(path, in_dir("whole"));
        assert_int_equal(kinds[k].write(path), STATUS_OK);
        assert_int_equal(file_read(path, &text, &n), STATUS_OK);
        strcpy(path, in_dir("cut"));
        for (size_t cut = 0; cut + 1 < n; cut++) { /* the last byte is a line break */
            put_bytes(path, text, cut);
            enum status st = kinds[k].read(path, NULL);
            if (cut + 1 < n - 1 && st != STATUS_PARSE)
                fail_msg("%s cut at %zu of %zu: status %d", kinds[k].name, cut, n, st);
        }
        free(text);
    }
}

/* The end of the object that begins behind one of these keys: notes for people, and names that are
 * free. */
static const char *behind_free(const char *at)
{
    static const char *const keys[] = {"\"provenance\"", "\"breakdown\"", "\"attributes\""};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (!strncmp(at, keys[k], strlen(keys[k]))) {
            at = strchr(at, '{');
            for (int depth = 1; depth > 0;) {
                at++;
                depth += (*at == '{') - (*at == '}');
            }
        }
    return at;
}

/* "keyq" instead of "key", each key of the file in turn. */
static void a_misspelt_key_is_refused(void **state)
{
    for (size_t k = 0; k < KINDS; k++) {
        char *text, path[128];
        size_t n, keys = 0;
        strcpy(path, in_dir("whole"));
        assert_int_equal(kinds[k].write(path), STATUS_OK);
        assert_int_equal(file_read(path, &text, &n), STATUS_OK);
        strcpy(path, in_dir("misspelt"));
        for (const char *at = text; (at = strchr(at, '"')); at++) {
            at = behind_free(at);
            const char *end = strchr(at, '"') ? strchr(strchr(at, '"') + 1, '"') : NULL;
            if (*at != '"' || !end) {
                continue;
            } else if (end[1] == ':') {
                struct file_out copy;
                assert_int_equal(file_create(path, &copy), STATUS_OK);
                fwrite(text, 1, (size_t)(end - text), copy.stream);
                fprintf(copy.stream, "q%s", end);
                assert_int_equal(file_commit(&copy), STATUS_OK);
                if (kinds[k].read(path, NULL) != STATUS_PARSE)
                    fail_msg("%s: misspelt %.*s is read", kinds[k].name, (int)(end - at), at);
                keys++;
            }
            at = end;
        }
        assert_true(keys > 10);
        free(text);
    }
}

static void an_unknown_key_is_named_with_its_place(void **state)
{
    static const char text[] =
        "{\"format\": \"foreline-model\", \"version\": 1, \"name\": \"m\",\n"
        "\"ops\": [{\"name\": \"a\", \"kind\": \"k\", \"forward_flops\": 1}]}";
    put_bytes(in_dir("m.json"), text, strlen(text));
    struct model m = {0};
    assert_int_equal(model_read(in_dir("m.json"), &m), STATUS_PARSE);
    assert_message(error_message(), "m.json:2:53: ops[0].forward_flops: unknown key; did "
                                    "you mean 'forward_flop'?");
}

/* Replace every digit, bracket and letter in turn by something else: no crash, whatever the result.
 */
static void a_file_with_any_byte_replaced_never_crashes(void **state)
{
    static const char other[] = "0-]}\"x,9";
    for (size_t k = 0; k < KINDS; k++) {
        char *text, path[128];
        size_t n;
        strcpy(path, in_dir("whole"));
        assert_int_equal(kinds[k].write(path), STATUS_OK);
        assert_int_equal(file_read(path, &text, &n), STATUS_OK);
        strcpy(path, in_dir("changed"));
        for (size_t i = 0; i < n; i++) {
            char keep = text[i];
            text[i] = other[i % (sizeof other - 1)];
            put_bytes(path, text, n);
            enum status st = kinds[k].read(path, NULL);
            assert_in_range(st, STATUS_OK, STATUS_PARSE);
            text[i] = keep;
        }
        free(text);
    }
}

static void releases_everything_when_memory_runs_out(void **state)
{
    for (size_t k = 0; k < KINDS; k++) {
        char path[128];
        strcpy(path, in_dir("whole"));
        FOR_EACH_ALLOC_FAILURE(kinds[k].write(path));
        FOR_EACH_ALLOC_FAILURE(kinds[k].read(path, NULL));
    }
}

static void a_fault_is_reported_with_line_column_and_path(void **state)
{
    char path[128], expected[256];
    static const char text[] = "{\"format\": \"foreline-measurement\", \"version\": 1,\n"
                               " \"engine\": \"tcp\", \"iteration_s\": 1, \"samples_per_s\": 1,\n"
                               " \"tokens_per_s\": 0, \"bubble_fraction\": 0, \"cpu_s\": 0,\n"
                               " \"ranks\": [{\"name\": \"a\", \"busy_s\": -1}]}\n";
    strcpy(path, in_dir("fault"));
    put_bytes(path, text, sizeof text - 1);
    struct measurement m = {0};
    assert_int_equal(measurement_read(path, &m), STATUS_PARSE);
    snprintf(expected, sizeof expected, "%s:4:36: ranks[0].busy_s: -1 is out of range", path);
    assert_memory_equal(error_message(), expected, strlen(expected));
}

/* A run that diverges has losses that JSON has no numbers for. */
static void losses_that_are_not_finite_are_written_and_read(void **state)
{
    char path[128], text[4096];
    double loss[] = {1.5, (double)NAN, (double)INFINITY};
    struct measurement m = f.measurement, read = {0};
    m.loss = loss;
    m.losses = 3;
    strcpy(path, in_dir("diverged"));
    assert_int_equal(measurement_write(&m, path, &by), STATUS_OK);
    assert_int_equal(measurement_read(path, &read), STATUS_OK);
    assert_int_equal(read.losses, 3);
    assert_true(read.loss[0] == 1.5 && isnan(read.loss[1]) && isnan(read.loss[2]));
    measurement_free(&read);
    /* other numbers must be there */
    snprintf(
        text, sizeof text,
        "{\"format\": \"foreline-measurement\", \"version\": 1, \"engine\": \"tcp\", "
        "\"iteration_s\": 1, \"samples_per_s\": 1, \"tokens_per_s\": 0, \"bubble_fraction\": 0, "
        "\"cpu_s\": 0, \"ranks\": [], \"iterations_s\": [null]}\n");
    put_bytes(path, text, strlen(text));
    assert_int_equal(measurement_read(path, &read), STATUS_PARSE);
}

static void files_of_another_kind_or_version_are_refused(void **state)
{
    struct model m = {0};
    char path[128];
    strcpy(path, in_dir("plan"));
    assert_int_equal(write_plan(path), STATUS_OK);
    assert_int_equal(model_read(path, &m), STATUS_PARSE);
    assert_message(error_message(), "a foreline-plan file");
    static const char newer[] = "{\"format\": \"foreline-model\", \"version\": 99}";
    put_bytes(path, newer, sizeof newer - 1);
    assert_int_equal(model_read(path, &m), STATUS_PARSE);
    assert_message(error_message(), "version 99 is newer");
    assert_int_equal(model_read(f.dir, &m), STATUS_IO);
}

static void nothing_is_left_when_a_file_cannot_be_written(void **state)
{
    assert_int_equal(write_model("/nonexistent/dir/model.json"), STATUS_IO);
    char path[128];
    strcpy(path, in_dir("dropped"));
    struct file_out out = {0};
    assert_int_equal(file_create(path, &out), STATUS_OK);
    fputs("half", out.stream);
    file_discard(&out);
    assert_int_not_equal(access(path, F_OK), 0);
    char command[160];
    snprintf(command, sizeof command, "test -z \"$(ls %s | grep dropped)\"", f.dir);
    assert_int_equal(system(command), 0);
}

static void a_trace_holds_every_op_of_the_program(void **state)
{
    struct timeline t;
    struct file_text out = {0};
    size_t events = 0;
    assert_int_equal(timeline_init(&t, f.program.ops), STATUS_OK);
    assert_int_equal(file_text_open(&out), STATUS_OK);
    enum status st = trace_put(&f.program, &t, out.stream, &by);
    assert_int_equal(file_text_close(&out, st), STATUS_OK);
    const char *text = out.text;
    for (const char *p = text; (p = strstr(p, "\"ph\": \"X\"")); p++)
        events++;
    assert_int_equal(events, f.program.ops);
    assert_non_null(strstr(text, "\"0SEND_F3\""));
    assert_non_null(strstr(text, "\"1B2\""));
    free(out.text);
    timeline_free(&t);
}

/* As many lanes as slices that run at a time, and none overlaps another of its lane. */
static void slices_of_a_lane_do_not_overlap(void **state)
{
    enum { N = 120 };
    double start[N], end[N];
    uint8_t thread[N];
    uint32_t lane[N];
    uint64_t r = 11;
    for (int round = 0; round < 100; round++) {
        for (size_t i = 0; i < N; i++) {
            start[i] = (double)(random_next(&r) % 1000);
            end[i] = start[i] + (double)(random_next(&r) % 60);
            thread[i] = (uint8_t)(random_next(&r) % TRACE_THREADS);
        }
        assert_int_equal(trace_lanes(N, start, end, thread, lane), STATUS_OK);
        for (size_t i = 0; i < N; i++) {
            uint32_t at_once = 0; /* that run when this one starts, itself included */
            for (size_t k = 0; k < N; k++) {
                bool same = thread[i] == thread[k];
                at_once += same && start[k] <= start[i] && (end[k] > start[i] || k == i);
                if (same && lane[i] == lane[k] && k != i)
                    assert_false(start[k] < end[i] && start[i] < end[k]);
            }
            assert_true(lane[i] < at_once);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_and_writing_again_gives_the_same_bytes),
        cmocka_unit_test(a_file_cut_at_any_byte_is_a_clean_error),
        cmocka_unit_test(a_misspelt_key_is_refused),
        cmocka_unit_test(an_unknown_key_is_named_with_its_place),
        cmocka_unit_test(a_file_with_any_byte_replaced_never_crashes),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
        cmocka_unit_test(a_fault_is_reported_with_line_column_and_path),
        cmocka_unit_test(files_of_another_kind_or_version_are_refused),
        cmocka_unit_test(nothing_is_left_when_a_file_cannot_be_written),
        cmocka_unit_test(losses_that_are_not_finite_are_written_and_read),
        cmocka_unit_test(a_trace_holds_every_op_of_the_program),
        cmocka_unit_test(slices_of_a_lane_do_not_overlap),
        cmocka_unit_test(jansson_is_as_before_for_others),
        cmocka_unit_test(objects_of_too_many_members_are_refused),
    };
    return cmocka_run_group_tests_name("files", tests, set_up, tear_down);
}
