/* Experiment files of foreline sweep. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "study/experiment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct experiment e = {0};
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0'; /* as file_read() leaves it */
    if (experiment_parse("input", text, size, NULL, &e) == STATUS_OK) {
        for (size_t point = 0; point < e.points && point < 64; point++) {
            const struct experiment_setting **setting;
            size_t n;
            if (experiment_settings(&e, point, &setting, &n) == STATUS_OK)
                free(setting);
        }
        experiment_free(&e);
    }
    free(text);
    return 0;
}
