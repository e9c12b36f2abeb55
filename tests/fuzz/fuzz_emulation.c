/* What emulated networks are told in text: FORELINE_DELAYS, and the lists of --fail, --kill,
 * --slow. The first byte says which; for the delays the second is the number of ranks. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/faults.h"
#include "exec/rendezvous.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool right)
{
    if (!right)
        __builtin_trap();
}

static void read_delays(const char *text, uint32_t ranks)
{
    struct delay *delay = NULL;
    if (rendezvous_delays(text, ranks, &delay) != STATUS_OK) {
        expect(!delay);
        return;
    }
    for (uint32_t r = 0; r < ranks; r++)
        expect(delay[r].latency_s >= 0 && delay[r].latency_s <= 3600 && delay[r].per_byte_s >= 0 &&
               delay[r].per_byte_s <= 1);
    free(delay);
}

static void read_faults(const char *list, enum fault_kind kind)
{
    struct faults f = {0};
    char *rest = NULL;
    enum status st =
        kind == FAULT_SLOW ? faults_take_slow(&f, list, &rest) : faults_add(&f, kind, list);
    expect(st == STATUS_OK || (f.n == 0 && !rest));
    for (size_t k = 0; k < f.n; k++) {
        const struct fault *one = &f.fault[k];
        expect(one->kind == kind && one->name[0] && one->at_s >= 0 && one->at_s <= faults_never_s &&
               one->factor >= 1 && one->factor <= 1e6);
    }
    expect(!rest || strlen(rest) <= strlen(list));
    free(rest);
    faults_free(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    char *text = malloc(size);
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 4) {
    case 0:
        read_faults(text, FAULT_FAIL);
        break;
    case 1:
        read_faults(text, FAULT_KILL);
        break;
    case 2:
        read_faults(text, FAULT_SLOW);
        break;
    default:
        read_delays(text + 1, data[1]);
    }
    free(text);
    return 0;
}
