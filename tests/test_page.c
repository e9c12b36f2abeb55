/* What pages are made of, as text; tests/report_page.py opens reports in a browser. */
#include "plots/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "plots/kind.h"
#include "tests/cmocka.h"
#include "tests/put.h"

static const char page[] = BINARY_DIR "/test_page.html", trace[] = BINARY_DIR "/test_page.json";

static const char trace_text[] =
    "{\"traceEvents\": [\n"
    "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"args\": {\"name\": \"rank 0 "
    "</script>\"}},\n"
    "{\"name\": \"0F0\", \"cat\": \"forward\", \"ph\": \"X\", \"ts\": 0, \"dur\": 1000, \"pid\": 0,"
    " \"args\": {\"microbatch\": 0}},\n"
    "{\"name\": \"1B7\", \"cat\": \"backward\", \"ph\": \"X\", \"ts\": 1500, \"dur\": 2500, "
    "\"pid\": "
    "1, \"args\": {\"microbatch\": 7}}]}\n";

static void write_page(void)
{
    put_text(trace, trace_text);
    put_text(BINARY_DIR "/test_page.svg",
             "<?xml version=\"1.0\"?>\n<svg width=\"200\" height=\"100\" "
             "xmlns=\"http://www.w3.org/2000/svg\"><rect width=\"200\" height=\"100\"/></svg>\n");
    FILE *f = fopen(page, "w");
    assert_non_null(f);
    page_open(f, "What <b>now</b> & \"then\"?");
    assert_int_equal(page_picture(f, BINARY_DIR "/test_page.svg", "a picture"), STATUS_OK);
    assert_int_equal(page_timeline(f, (const char *const[]){trace}, 1), STATUS_OK);
    page_close(f);
    assert_int_equal(fclose(f), 0);
}

static void text_is_escaped_and_nothing_is_fetched(void **state)
{
    char *text = NULL;
    size_t length;
    write_page();
    assert_int_equal(file_read(page, &text, &length), STATUS_OK);
    assert_non_null(strstr(text, "<title>What &lt;b&gt;now&lt;/b&gt; &amp; &quot;then&quot;?<"));
    assert_non_null(strstr(text, "\"rank 0 \\u003c/script>\""));
    assert_non_null(strstr(text, "\"start\":[0,1500000],"));
    assert_non_null(strstr(text, "\"duration\":[1000000,2500000],"));
    assert_null(strstr(text, "src="));
    assert_null(strstr(text, "@import"));
    assert_null(strstr(text, "href=\"http"));
    free(text);
    assert_int_equal(page_picture(stderr, trace, ""), STATUS_PARSE);
}

/* A long cell takes several lines, or it would push the last column out of sight. */
static void long_cells_wrap(void **state)
{
    char *text = NULL;
    size_t length;
    static const char *const cell[] = {"short",
                                       "fifty letters that say where the time of all ranks went"};
    FILE *f = open_memstream(&text, &length);
    assert_non_null(f);
    page_row(f, "td", cell, 2);
    fclose(f);
    assert_non_null(strstr(text, "<td>short</td><td class=\"long\">fifty letters"));
    free(text);
}

/* Names in tables are anybody's: no markup, and no end of the script that they stand in. */
static void rows_are_columns_of_json(void **state)
{
    struct plot_table t = {0};
    char *text = NULL;
    size_t length;
    static const char rows[] = "a\tb\tc\td\n1\t</script>\tx\t7\n2.5\t\"q\" & \xc3\xa9\tx\t\n"
                               "1e3\t</script>\tx\t7\n";
    assert_int_equal(table_parse("t", rows, strlen(rows), &t), STATUS_OK);
    FILE *f = open_memstream(&text, &length);
    assert_non_null(f);
    assert_int_equal(page_points(f, &(struct page_points){.rows = &t}), STATUS_OK);
    fclose(f);
    assert_non_null(strstr(text, "\"name\":\"a\",\"number\":[1,2.5,1000]}"));
    assert_non_null(strstr(text, "\"values\":[\"\\\"q\\\" & \xc3\xa9\",\"\\u003c/script>\"],"
                                 "\"at\":[1,0,1]}"));
    assert_non_null(strstr(text, "\"name\":\"c\",\"same\":\"x\"}"));
    assert_non_null(strstr(text, "\"name\":\"d\",\"number\":[7,null,7]}"));
    free(text);
    table_free(&t);
}

/* The policy allows one script, which is the page's own, and no address. */
static void the_policy_knows_the_script_by_its_hash(void **state)
{
    char *text = NULL, hash[DIGEST_BASE64], allowed[96];
    size_t length;
    write_page();
    assert_int_equal(file_read(page, &text, &length), STATUS_OK);
    const char *begin = strstr(text, "<script>"), *end = begin ? strstr(begin, "</script>") : NULL;
    assert_non_null(end);
    begin += strlen("<script>");
    digest_base64(begin, (size_t)(end - begin), hash);
    snprintf(allowed, sizeof allowed, "default-src 'none'; script-src 'sha256-%s'; ", hash);
    assert_non_null(strstr(text, allowed));
    assert_true(strstr(text, allowed) < begin);
    assert_null(strstr(begin, "<script>"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_escaped_and_nothing_is_fetched),
        cmocka_unit_test(long_cells_wrap),
        cmocka_unit_test(rows_are_columns_of_json),
        cmocka_unit_test(the_policy_knows_the_script_by_its_hash),
    };
    return cmocka_run_group_tests_name("page", tests, NULL, NULL);
}
