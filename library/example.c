/* Plan a model over a cluster and say how fast it would be: cc example.c $(pkg-config --cflags
 * --libs foreline), then ./a.out gpt2-small rail:nodes=2,gpus=4 64 */
#include <foreline.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODEL PLATFORM BATCH\n", argv[0]);
        return 2;
    }
    struct foreline_error error;
    foreline_model *model = NULL;
    foreline_platform *platform = NULL;
    foreline_plan *plan = NULL;
    struct foreline_prediction p;
    const struct foreline_setting settings[] = {{"batch", argv[3]}};
    if (foreline_model_load(argv[1], &model, &error) == FORELINE_OK &&
        foreline_platform_load(argv[2], &platform, &error) == FORELINE_OK &&
        foreline_plan_make(model, platform, settings, 1, &plan, &error) == FORELINE_OK &&
        foreline_predict(plan, "simgrid", &p, &error) == FORELINE_OK &&
        foreline_plan_write(plan, "plan.json", &error) == FORELINE_OK) {
        printf("%zu devices, %.17g s per iteration, %.4g tokens/s\n",
               foreline_platform_devices(platform), p.iteration_s, p.tokens_per_s);
        printf("compute %.1f %%, waiting %.1f %%, idle %.1f %%; peak %.2f GiB\n", 100 * p.busy,
               100 * p.exposed, 100 * p.idle, (double)p.peak_bytes / 0x1p30);
    }
    if (error.status != FORELINE_OK)
        fprintf(stderr, "%s: %s\n", argv[0], error.message);
    foreline_plan_free(plan);
    foreline_platform_free(platform);
    foreline_model_free(model);
    return error.status != FORELINE_OK;
}
