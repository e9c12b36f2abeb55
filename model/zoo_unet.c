/* U-Net of denoising diffusion, Ho et al., NeurIPS 2020: down through six sizes of an image and up
 * again, with what was made on the way down put beside what is made on the way up, and a row for
 * the time step that every block adds. It is the one of PiPPy's example, diffusers' UNet2DModel of
 * google/ddpm-cat-256; the parent of its shape, Ronneberger et al., MICCAI 2015, has neither
 * attention nor time steps.
 *
 * Pixels are bytes of text, as in zoo_images.c. In place of the squared error of the noise the last
 * layer's numbers of a pixel are scores of `classes`: the byte that follows it. */
#include "model/zoo.h"

#include <stdio.h>

#include "model/layers.h"

enum { SIDE, WIDTH, CLASSES, GROUPS, PARAMETERS };
enum {
    PIXEL = 3,
    BYTES = 256,
    SIZES = 6,
    BLOCKS = 2,
    ATTENDS = 4,
    SKIPS = 1 + SIZES * (BLOCKS + 1)
};
enum { TIME = 4, SHRUNK = 1 << (SIZES - 1) };

static const struct zoo_parameter unet[] = {
    [SIDE] = {"side", "height and width of an image in pixels, a multiple of 32", 256, SHRUNK,
              4096},
    [WIDTH] = {"width", "channels of the first blocks", 128, 2, 4096},
    [CLASSES] = {"classes", "output values per pixel", 3, 2, 1 << 20},
    [GROUPS] = {"groups", "groups of channels for group normalization", 32, 1, 4096},
};

static const int64_t widths[SIZES] = {1, 1, 2, 2, 4, 4};

/* Where the network has come to. */
struct unet_image {
    uint32_t op;
    int64_t channels, side;
};

struct unet {
    struct graph g;
    struct unet_image at, skip[SKIPS];
    size_t skips;
    uint32_t time; /* row of the time step */
    int64_t width, groups;
};

static int64_t unet_positions(const struct unet *u)
{
    return u->at.side * u->at.side;
}

static uint32_t unet_linear(struct unet *u, const char *name, uint32_t x, int64_t rows, int64_t in,
                            int64_t out)
{
    return layer_linear(&u->g, name, x,
                        &(struct linear_shape){rows, in, out, true, MODEL_NO_OP, TENSOR_WHOLE});
}

static void unet_convolve(struct unet *u, const char *name, int64_t out, int64_t kernel,
                          int64_t stride)
{
    const struct convolution_shape s = {.in = u->at.channels,
                                        .out = out,
                                        .groups = 1,
                                        .bias = true,
                                        .at = {u->at.side, u->at.side, kernel, stride, kernel / 2}};
    u->at = (struct unet_image){layer_convolution(&u->g, name, u->at.op, &s), out,
                                windows_along(&s.at, u->at.side)};
}

static void normalise(struct unet *u, const char *name, const char *act)
{
    u->at.op = layer_groupnorm(&u->g, name, u->at.op, u->at.channels, unet_positions(u), u->groups);
    if (act)
        u->at.op = layer_silu(&u->g, act, u->at.op, unet_positions(u), u->at.channels);
}

/* x + f(x), with the time step's row inside; where channels change, x goes through a product. */
static void residual_block(struct unet *u, const char *where, int number, int64_t out)
{
    struct unet_image x = u->at;
    snprintf(u->g.prefix, sizeof u->g.prefix, "%s%d.", where, number);
    normalise(u, "norm1", "act1");
    unet_convolve(u, "conv1", out, 3, 1);
    uint32_t row = unet_linear(u, "time", u->time, 1, TIME * u->width, out);
    u->at.op = layer_add_row(&u->g, "add", u->at.op, row, unet_positions(u), out);
    normalise(u, "norm2", "act2");
    unet_convolve(u, "conv2", out, 3, 1);
    struct unet_image y = u->at;
    u->at = x;
    if (x.channels != out)
        unet_convolve(u, "way", out, 1, 1);
    y.op = layer_residual(&u->g, "residual", u->at.op, y.op, unet_positions(u), out);
    u->at = y;
}

/* Every position looks at all others, with one head. */
static void unet_attend(struct unet *u)
{
    const int64_t n = unet_positions(u), c = u->at.channels;
    const struct attention_shape s = {
        .tokens = n, .heads = 1, .kv_heads = 1, .head = c, .value = c};
    uint32_t x = u->at.op;
    normalise(u, "attn.norm", NULL);
    uint32_t y = unet_linear(u, "attn.qkv", u->at.op, n, c, 3 * c);
    y = layer_attention(&u->g, "attn", y, MODEL_NO_OP, &s);
    y = unet_linear(u, "attn.proj", y, n, c, c);
    u->at.op = layer_residual(&u->g, "attn.residual", x, y, n, c);
}

static void unet_keep_skip(struct unet *u)
{
    u->skip[u->skips++] = u->at;
}

static void go_down(struct unet *u)
{
    unet_keep_skip(u);
    for (int k = 0; k < SIZES; k++) {
        for (int i = 0; i < BLOCKS; i++) {
            residual_block(u, "d", k * BLOCKS + i, widths[k] * u->width);
            if (k == ATTENDS)
                unet_attend(u);
            unet_keep_skip(u);
        }
        if (k + 1 == SIZES)
            return;
        unet_convolve(u, "down", u->at.channels, 3, 2);
        unet_keep_skip(u);
    }
}

static void go_up(struct unet *u)
{
    for (int k = SIZES; k-- > 0;) {
        for (int i = 0; i < BLOCKS + 1; i++) {
            struct unet_image from = u->skip[--u->skips];
            snprintf(u->g.prefix, sizeof u->g.prefix, "u%d.", (SIZES - 1 - k) * (BLOCKS + 1) + i);
            u->at.op = layer_concat(&u->g, "skip", u->at.op, from.op, unet_positions(u),
                                    u->at.channels, from.channels);
            u->at.channels += from.channels;
            residual_block(u, "u", (SIZES - 1 - k) * (BLOCKS + 1) + i, widths[k] * u->width);
            if (k == ATTENDS)
                unet_attend(u);
        }
        if (k == 0)
            return;
        u->at.op = layer_upsample(&u->g, "up", u->at.op, u->at.channels, u->at.side, u->at.side);
        u->at.side *= 2;
        unet_convolve(u, "up.conv", u->at.channels, 3, 1);
    }
}

static void unet_middle(struct unet *u)
{
    residual_block(u, "m", 0, u->at.channels);
    unet_attend(u);
    residual_block(u, "m", 1, u->at.channels);
}

static void unet_begin(struct unet *u)
{
    u->at.op =
        layer_embedding(&u->g, "pixels",
                        &(struct embedding_shape){
                            .tokens = unet_positions(u), .channels = PIXEL, .vocabulary = BYTES});
    u->time = layer_sinusoids(&u->g, "time", 1, u->width, 1);
    u->time = unet_linear(u, "time.in", u->time, 1, u->width, TIME * u->width);
    u->time = layer_silu(&u->g, "time.act", u->time, 1, TIME * u->width);
    u->time = unet_linear(u, "time.out", u->time, 1, TIME * u->width, TIME * u->width);
    u->time = layer_silu(&u->g, "time.act2", u->time, 1, TIME * u->width);
    unet_convolve(u, "conv", u->width, 3, 1);
}

static enum status build_unet(const int64_t *value, struct model *out)
{
    struct unet u = {.g = graph_begin(DATA_fp32),
                     .at = {.channels = PIXEL, .side = value[SIDE]},
                     .width = value[WIDTH],
                     .groups = value[GROUPS]};
    if (value[SIDE] % SHRUNK != 0 || value[WIDTH] % value[GROUPS] != 0 || value[WIDTH] % 2 != 0)
        return error_set(
            STATUS_INVALID,
            "key 'side' must be a multiple of %d, key 'width' a multiple of key 'groups' and of 2",
            SHRUNK);
    unet_begin(&u);
    go_down(&u);
    unet_middle(&u);
    go_up(&u);
    u.g.prefix[0] = '\0';
    normalise(&u, "norm", "act");
    unet_convolve(&u, "out", value[CLASSES], 3, 1);
    layer_loss(&u.g, "loss", u.at.op, unet_positions(&u), value[CLASSES], false);
    return graph_finish(&u.g, "unet", "U-Net of DDPM; bytes of text are pixels", out);
}

const struct zoo_entry zoo_unet = {
    "unet",     "U-Net of diffusion models (image pixels are read from text)",
    PARAMETERS, unet,
    build_unet, NULL};
