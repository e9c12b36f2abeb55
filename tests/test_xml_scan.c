/* xml_scan: tags with their lines in well-formed text, and calm in any other. */
#include "sim/platform/xml_scan.h"
#include "tests/cmocka.h"

#include <stdlib.h>
#include <string.h>

static const char example[] = "<?xml version='1.0'?>\n"
                              "<!DOCTYPE platform>\n"
                              "<!-- <host id=\"no\"/>\n"
                              "-->\n"
                              "<zone id=\"z\"\n"
                              "      routing = 'Full' ><![CDATA[ <host id=\"no\"/> ]]>\n"
                              "<host id=\"a &lt;&amp;&gt; b\" speed='1>0'/></zone>\n"
                              "<prop/>";

static void finds_the_tags_and_their_lines(void **state)
{
    struct xml_scanner s = xml_scan(example);
    struct xml_tag tag;
    assert_true(xml_next(&s, &tag));
    assert_true(xml_is(&tag, "zone"));
    assert_int_equal(tag.line, 5);
    assert_true(xml_equal(xml_attribute(&tag, "routing"), "Full"));
    assert_true(xml_next(&s, &tag));
    assert_true(xml_is(&tag, "host"));
    assert_int_equal(tag.line, 7);
    assert_true(xml_equal(xml_attribute(&tag, "speed"), "1>0"));
    assert_true(xml_next(&s, &tag));
    assert_true(tag.closing);
    assert_false(xml_is(&tag, "zone"));
    assert_true(xml_equal(tag.name, "zone"));
    assert_true(xml_next(&s, &tag));
    assert_true(xml_is(&tag, "prop"));
    assert_int_equal(tag.line, 8);
    assert_null(xml_attribute(&tag, "id").at);
    assert_false(xml_next(&s, &tag));
}

static void replaces_entities(void **state)
{
    char text[16];
    struct xml_span span = {"a&lt;&amp;&gt;&quot;&apos;&x;", 29};
    span.n = strlen(span.at);
    assert_int_equal(xml_decode(span, text, sizeof text), 9);
    assert_string_equal(text, "a<&>\"'&x;");
    assert_int_equal(xml_decode(span, text, 4), 9);
    assert_string_equal(text, "a<&");
    assert_true(xml_equal(span, "a<&>\"'&x;"));
    assert_false(xml_equal(span, "a<&>\"'&x"));
    assert_false(xml_equal(span, "a<&>\"'&x;;"));
    assert_false(xml_equal((struct xml_span){NULL, 0}, ""));
}

static void does_not_take_the_end_of_a_longer_name_for_an_attribute(void **state)
{
    struct xml_scanner s = xml_scan("<route gw_src='r' src='h' x/>");
    struct xml_tag tag;
    assert_true(xml_next(&s, &tag));
    assert_true(xml_equal(xml_attribute(&tag, "src"), "h"));
    assert_null(xml_attribute(&tag, "x").at);
}

static void orders_spans_like_strcmp(void **state)
{
    const struct xml_span a = {"ab", 2}, b = {"abc", 3}, c = {"b", 1};
    assert_true(xml_compare(a, b) < 0);
    assert_true(xml_compare(c, b) > 0);
    assert_int_equal(xml_compare(a, a), 0);
}

/* Every truncation and much damage, in a buffer of exactly that size: reading beyond is noticed. */
static void reads_any_text_to_its_end(void **state)
{
    srand(1);
    for (size_t n = 0; n < sizeof example; n++)
        for (int trial = 0; trial < 20; trial++) {
            char *text = malloc(n + 1);
            assert_non_null(text);
            memcpy(text, example, n);
            text[n] = '\0';
            for (int k = 0; k < trial && n > 0; k++)
                text[(size_t)rand() % n] = "<>\"'=/!-?&; \n"[rand() % 13];
            struct xml_scanner s = xml_scan(text);
            struct xml_tag tag;
            size_t tags = 0;
            while (xml_next(&s, &tag)) {
                struct xml_span id = xml_attribute(&tag, "id");
                assert_true(!id.at || (id.at >= text && id.at + id.n <= text + n));
                tags++;
            }
            assert_true(tags <= n);
            assert_ptr_equal(s.next, text + n);
            free(text);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_tags_and_their_lines),
        cmocka_unit_test(replaces_entities),
        cmocka_unit_test(does_not_take_the_end_of_a_longer_name_for_an_attribute),
        cmocka_unit_test(orders_spans_like_strcmp),
        cmocka_unit_test(reads_any_text_to_its_end),
    };
    return cmocka_run_group_tests_name("xml_scan", tests, NULL, NULL);
}
