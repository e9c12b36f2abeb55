/* Experiment files of foreline sweep, and driver files of PipeDream that become such; lists of
 * hosts. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "exec/launch/hosts.h"
#include "papers/pipedream/driver.h"
#include "study/experiment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a driver file becomes is YAML, whatever its texts are. */
static void translate(const char *text, size_t size)
{
    struct experiment e = {0};
    char *said = NULL;
    if (driver_translate("input", text, size, &said) != STATUS_OK || !said)
        return;
    if (experiment_parse("said", said, strlen(said), NULL, &e) == STATUS_PARSE &&
        strstr(error_message(), "while parsing"))
        abort();
    experiment_free(&e);
    free(said);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct experiment e = {0};
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0'; /* as file_read() leaves it */
    translate(text, size);
    struct hosts hosts = {0};
    if (hosts_is_list(text) && hosts_read(text, &hosts) == STATUS_OK)
        hosts_free(&hosts);
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
