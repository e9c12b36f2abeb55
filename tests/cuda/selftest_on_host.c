/* The self-test of the CUDA device without a GPU: the real host code and the real kernels, on
 * tests/cuda/host.h and runtime_on_host.c. */
#include "exec/device/cuda/selftest.h"

int main(void)
{
    struct cuda_context c = {0};
    bool layers = false, training = false;
    enum status st;
    TRY(cuda_context_open(0, &c));
    TRY(selftest_layers(&c, stdout, &layers));
    TRY(selftest_training(stdout, &training));
out:
    if (st != STATUS_OK)
        printf("FAILED: %s\n", error_message());
    cuda_context_close(&c);
    return st == STATUS_OK && layers && training ? 0 : 1;
}
