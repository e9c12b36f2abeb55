/* The importer of ONNX files: costs by hand, what is refused, and files that are cut off or
 * wrong. */
#include "model/import.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/random.h"
#include "model/onnx/wire.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"

#define CORPUS SOURCE_DIR "/tests/fuzz/corpus/onnx/"

static const char *const files[] = {CORPUS "images.onnx", CORPUS "attention.onnx",
                                    CORPUS "written-out.onnx", CORPUS "unknown-operator.onnx"};
enum { FILES = sizeof files / sizeof *files };

static struct import_options with(const char *choices)
{
    return (struct import_options){.minibatch_size = 1, .choices = choices};
}

static void import(const char *path, const char *choices, struct model *m)
{
    const struct import_options o = with(choices);
    if (model_import(path, &o, m) != STATUS_OK)
        fail_msg("%s", error_message());
}

static const struct model_op *op(const struct model *m, const char *name, const char *kind)
{
    uint32_t i = model_find(m, name);
    if (i == MODEL_NO_OP)
        fail_msg("no op %s", name);
    assert_string_equal(m->op[i].kind, kind);
    return &m->op[i];
}

static void assert_refused(const char *path, const char *choices, const char *what)
{
    const struct import_options o = with(choices);
    struct model m = {0};
    assert_int_not_equal(model_import(path, &o, &m), STATUS_OK);
    if (!message_says(error_message(), what))
        fail_msg("'%s' does not say '%s'", error_message(), what);
    assert_null(m.op);
}

/* 2 images of 16 x 16; 8 channels of 8 x 8 after a stride of 2. An image has no gradient. */
static void images_cost_what_their_formulas_say(void **state)
{
    struct model m = {0};
    import(files[0], NULL, &m);
    assert_int_equal(m.n, 8);
    assert_int_equal(model_parameters(&m), 216 + 8 + 16 + 72 + 90); /* none of the running means */
    const struct model_op *o = op(&m, "stem/conv", "convolution");
    assert_true(o->forward_flop == 2 * 64 * 216 && o->backward_flop == o->forward_flop);
    assert_true(o->forward_bytes == 4 * (3 * 256 + 8 * 64));
    assert_int_equal(o->output_bytes, 4 * 8 * 64);
    o = op(&m, "body", "convolution"); /* 8 groups */
    assert_true(o->forward_flop == 2 * 64 * 72 && o->backward_flop == 2 * o->forward_flop);
    assert_true(op(&m, "pool", "maxpool")->forward_flop == 8 * 16 * 4);
    assert_true(op(&m, "head", "linear")->forward_flop == 2 * 80);
    assert_int_equal(op(&m, "body/Add", "residual")->output_bytes, 4 * 8 * 64);
    assert_non_null(strstr(m.note, "a batch of 2 divided out"));
    model_free(&m);
}

/* 2 heads of 4, of 5 tokens; the mask is an input, and no op. A larger batch changes nothing of a
 * sample. */
static void attention_is_found_and_open_dimensions_are_chosen(void **state)
{
    static const char *const choices[] = {":seq=5", ":batch=3,seq=5"};
    for (size_t k = 0; k < 2; k++) {
        struct model m = {0};
        import(files[1], choices[k], &m);
        assert_int_equal(m.n, 5);
        const struct model_op *o = op(&m, "attn", "attention");
        assert_true(o->forward_flop == 4 * 25 * 8 && o->backward_flop == 2 * o->forward_flop);
        assert_int_equal(model_attribute(o, "heads", 0), 2);
        assert_int_equal(model_attribute(o, "tokens", 0), 5);
        assert_int_equal(m.in_start[5] - m.in_start[4], 3);
        assert_true(m.tokens_per_sample == 5);
        assert_int_equal(model_parameters(&m), 50 * 8 + 3 * 64 + 8);
        model_free(&m);
    }
    assert_refused(files[1], NULL, "attention.onnx:seq=N");
    assert_refused(files[1], ":seq=5,sek=6", "dimension 'sek'; did you mean 'seq'?");
    assert_refused(files[1], ":seq=0", "expected NAME=SIZE");
    assert_refused(files[0], ":batch=4", "unknown dynamic dimension");
    assert_refused(files[1], ":seq=999999999,batch=999999999", "has more than 1e15");
}

static void layers_that_are_written_out_are_one_op(void **state)
{
    struct model m = {0};
    import(files[2], NULL, &m);
    assert_int_equal(m.n, 4);
    assert_true(op(&m, "ln", "layernorm")->forward_flop == 7 * 32);
    assert_true(op(&m, "act", "gelu")->forward_flop == 9 * 32);
    assert_true(op(&m, "rms", "rmsnorm")->forward_flop == 4 * 32);
    assert_true(op(&m, "tanh", "gelu")->backward_flop == 18 * 32);
    assert_int_equal(model_parameters(&m), 8 + 8 + 8); /* a copy of a weight is one of its own */
    model_free(&m);
}

static void an_unknown_operator_needs_the_shape_of_its_output(void **state)
{
    struct model m = {0};
    static const char path[] = BINARY_DIR "/test_onnx.onnx";
    char *text;
    size_t length;
    import(files[3], NULL, &m);
    assert_int_equal(m.n, 4);
    op(&m, "own", "own");
    assert_int_equal(op(&m, "last", "linear")->parameter_bytes, 4 * 12); /* left out of the file */
    model_free(&m);

    assert_int_equal(file_read(files[3], &text, &length), STATUS_OK);
    for (size_t i = 0; i + 4 < length; i++) /* "u" of the value_info becomes another's */
        if (memcmp(text + i, "\x6a", 1) == 0 && text[i + 2] == 0x0a && text[i + 4] == 'u')
            text[i + 4] = 'U';
    put_bytes(path, text, length);
    assert_refused(path, NULL, "operator 'Own' of my");
    free(text);
}

/* Every beginning of a file, and many files with a few bytes that are others: read or refused. */
static void damaged_files_are_read_or_refused_in_one_line(void **state)
{
    const struct import_options o = with(":seq=5");
    uint64_t r = 18;
    size_t refused = 0;
    for (size_t f = 0; f < FILES; f++) {
        char *text, *copy;
        size_t length;
        assert_int_equal(file_read(files[f], &text, &length), STATUS_OK);
        for (size_t k = 0; k < length + 3000; k++) {
            struct model m = {0};
            size_t n = k < length ? k : length;
            copy = malloc(n > 0 ? n : 1);
            assert_non_null(copy);
            memcpy(copy, text, n);
            for (int i = 0; k >= length && i < 3; i++)
                copy[random_next(&r) % length] = (char)random_next(&r);
            if (importer_onnx.parse("damaged", copy, n, &o, &m) != STATUS_OK) {
                assert_null(strchr(error_message(), '\n'));
                refused++;
            }
            model_free(&m);
            free(copy);
        }
        free(text);
    }
    assert_true(refused > 3000);
}

/* Numbers of 1, 2 and 10 bytes, of a file and of memory; a window is moved over what is skipped. */
static void a_file_is_read_as_memory_is(void **state)
{
    enum { SKIPPED = 3 * WIRE_WINDOW };
    static unsigned char bytes[SKIPPED + 64], window[WIRE_WINDOW];
    char path[] = "/tmp/foreline-test-wire-XXXXXX";
    size_t n = 0;
    bytes[n++] = 0x08, bytes[n++] = 0x96, bytes[n++] = 0x01;
    bytes[n++] = 0x12, bytes[n++] = 0x80, bytes[n++] = 0x80, bytes[n++] = SKIPPED >> 14;
    n += SKIPPED;
    bytes[n++] = 0x1d, bytes[n++] = 1, bytes[n++] = 2, bytes[n++] = 3, bytes[n++] = 4;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    for (int memory = 0; memory < 2; memory++) {
        struct wire_source s = {.path = "w",
                                .memory = memory ? (char *)bytes : NULL,
                                .fd = fd,
                                .length = n,
                                .window = window};
        struct wire w = wire_all(&s);
        struct wire_field f;
        assert_int_equal(wire_next(&w, &f), STATUS_OK);
        assert_true(f.number == 1 && f.kind == WIRE_VARINT && f.value == 150);
        assert_int_equal(wire_next(&w, &f), STATUS_OK);
        assert_true(f.number == 2 && f.body.end - f.body.at == SKIPPED);
        assert_int_equal(wire_next(&w, &f), STATUS_OK);
        assert_true(f.number == 3 && f.value == 0x04030201);
        assert_int_equal(wire_next(&w, &f), STATUS_OK);
        assert_int_equal(f.number, WIRE_END);
    }
    assert_int_equal(close(fd), 0);
    unlink(path);
}

static enum status import_and_free(const char *path, const char *choices)
{
    const struct import_options o = with(choices);
    struct model m = {0};
    enum status st = model_import(path, &o, &m);
    model_free(&m);
    return st;
}

static void reports_every_allocation_that_fails(void **state)
{
    FOR_EACH_ALLOC_FAILURE(import_and_free(files[1], ":seq=5"));
    FOR_EACH_ALLOC_FAILURE(import_and_free(files[2], NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_cost_what_their_formulas_say),
        cmocka_unit_test(attention_is_found_and_open_dimensions_are_chosen),
        cmocka_unit_test(layers_that_are_written_out_are_one_op),
        cmocka_unit_test(an_unknown_operator_needs_the_shape_of_its_output),
        cmocka_unit_test(damaged_files_are_read_or_refused_in_one_line),
        cmocka_unit_test(a_file_is_read_as_memory_is),
        cmocka_unit_test(reports_every_allocation_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
