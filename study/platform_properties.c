/* Platform files with properties put in: curves and constants that were measured elsewhere. */
#include "study/platform_properties.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "study/load.h"

enum status platform_write_properties(const char *name,
                                      const struct platform_property_text *property, size_t n,
                                      const char *output)
{
    enum status st;
    struct file_out out = {0};
    struct platform_text text = {0};
    char *path = NULL, *xml = NULL;
    size_t length;
    TRY(load_platform(name, &path));
    TRY(file_read(path, &xml, &length));
    text.path = path;
    text.text = xml;
    TRY(file_create(output, &out));
    TRY(platform_set_properties(&text, property, n, out.stream));
    TRY(file_commit(&out));
out:
    file_discard(&out);
    free(xml);
    free(path);
    return st;
}
