/* units: what is accepted, what is not, and how quantities print. */
#include "core/base/units.h"

#include <string.h>

#include "tests/cmocka.h"
#include "tests/sample.h"

static void reads_what_people_write(void **state)
{
    static const struct {
        enum unit unit;
        const char *text;
        double value;
    } cases[] = {
        {UNIT_RATE, "400Gbps", 50e9},      {UNIT_RATE, "50GBps", 50e9},
        {UNIT_RATE, "1GiBps", 1073741824}, {UNIT_BYTES, "16MiB", 16777216},
        {UNIT_BYTES, "80GB", 80e9},        {UNIT_BYTES, "4096", 4096},
        {UNIT_SECONDS, "1.5us", 1.5e-6},   {UNIT_SECONDS, "20 ms", 20e-3},
        {UNIT_SECONDS, "2min", 120},       {UNIT_FLOPS, "312Tf", 312e12},
        {UNIT_FLOP, "5Gflop", 5e9},        {UNIT_SECONDS, "0", 0},
        {UNIT_COUNT, "1536", 1536},        {UNIT_COUNT, "128K", 128e3},
        {UNIT_COUNT, "2B", 2e9},           {UNIT_COUNT, "1.5T", 1.5e12},
        {UNIT_COUNT, "4Ki", 4096},         {UNIT_COUNT, "1e12", 1e12},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value;
        if (units_parse(cases[i].unit, cases[i].text, &value) != STATUS_OK)
            fail_msg("%s", error_message());
        assert_near(value, cases[i].value, 1e-12 * cases[i].value);
    }
}

static void refuses_what_has_no_clear_meaning(void **state)
{
    static const struct {
        enum unit unit;
        const char *text;
    } cases[] = {
        {UNIT_RATE, "400"},    {UNIT_RATE, "400Gbit"}, {UNIT_RATE, "-1Gbps"},   {UNIT_SECONDS, "5"},
        {UNIT_SECONDS, "kms"}, {UNIT_SECONDS, "1kms"}, {UNIT_BYTES, "1.5x"},    {UNIT_BYTES, ""},
        {UNIT_FLOPS, "nanTf"}, {UNIT_FLOPS, "infTf"},  {UNIT_BYTES, "1e308TB"}, {UNIT_COUNT, "2KB"},
        {UNIT_COUNT, "many"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value = -7;
        assert_int_equal(units_parse(cases[i].unit, cases[i].text, &value), STATUS_INVALID);
        assert_near(value, -7, 0);
    }
}

static void says_what_it_expected(void **state)
{
    double value;
    assert_int_equal(units_parse(UNIT_RATE, "400", &value), STATUS_INVALID);
    assert_message(error_message(), "'400' 400Gbps 50GBps missing");
}

static void says_what_was_meant(void **state)
{
    static const struct {
        enum unit unit;
        const char *text, *hint; /* NULL: none */
    } cases[] = {
        {UNIT_RATE, "400gbps", "; did you mean 400Gbps or 400GBps?"},
        {UNIT_RATE, "400Gbit/s", "; did you mean 400Gbps?"},
        {UNIT_RATE, "400Gbit", "; did you mean 400Gbps?"},
        {UNIT_BYTES, "16mib", "; did you mean 16MiB?"},
        {UNIT_BYTES, "16gb", "; did you mean 16GB?"},
        {UNIT_SECONDS, "5US", "; did you mean 5us?"},
        {UNIT_FLOPS, "312TFlops", "; did you mean 312Tflops?"},
        {UNIT_RATE, "400 apples", NULL},
        {UNIT_BYTES, "7x", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value;
        assert_int_equal(units_parse(cases[i].unit, cases[i].text, &value), STATUS_INVALID);
        const char *told = strchr(error_message(), ';');
        if (strcmp(told ? told : "", cases[i].hint ? cases[i].hint : "") != 0)
            fail_msg("%s", error_message());
    }
}

static void prints_in_the_largest_fitting_prefix(void **state)
{
    char text[UNITS_TEXT];
    assert_string_equal(units_print(UNIT_SECONDS, 1.5e-6, text), "1.5 us");
    assert_string_equal(units_print(UNIT_SECONDS, 0, text), "0 s");
    assert_string_equal(units_print(UNIT_SECONDS, 0.99999, text), "1 s");
    assert_string_equal(units_print(UNIT_BYTES, 16777216, text), "16 MiB");
    assert_string_equal(units_print(UNIT_RATE, 50e9, text), "50 GB/s");
    assert_string_equal(units_print(UNIT_FLOPS, 312e12, text), "312 Tflop/s");
    assert_string_equal(units_print(UNIT_COUNT, 15e12, text), "15T");
    assert_string_equal(units_print(UNIT_COUNT, 300e9, text), "300B");
    assert_string_equal(units_print(UNIT_COUNT, 512, text), "512");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_people_write),
        cmocka_unit_test(refuses_what_has_no_clear_meaning),
        cmocka_unit_test(says_what_it_expected),
        cmocka_unit_test(says_what_was_meant),
        cmocka_unit_test(prints_in_the_largest_fitting_prefix),
    };
    return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
