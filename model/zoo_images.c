/* Networks for images: AlexNet, VGG and ResNet, of any width, the latter of any depth. An image is
 * `side` x `side` bytes of text, each embedded as a pixel of three channels, and its class is the
 * byte that follows: there is something to learn without a data set. Real images have no table of
 * 768 numbers and are otherwise the same. */
#include "model/zoo.h"

#include <inttypes.h>
#include <stdio.h>

#include "model/layers.h"

enum { DEPTH, SIDE, WIDTH, CLASSES, HIDDEN, VGG_PARAMETERS, RESNET_PARAMETERS = HIDDEN };
enum { PIXEL = 3, BYTES = 256, BLOCKS = 5 };

/* Where the network has come to. */
struct zoo_image {
    struct graph g;
    uint32_t op;
    int64_t channels, side;
};

static struct zoo_image image_begin(int64_t side)
{
    struct zoo_image i = {.g = graph_begin(DATA_fp32), .channels = PIXEL, .side = side};
    i.op = layer_embedding(
        &i.g, "pixels",
        &(struct embedding_shape){
            .tokens = side * side, .channels = PIXEL, .vocabulary = BYTES, .concat = true});
    return i;
}

static void name_block(struct zoo_image *i, const char *kind, int number)
{
    snprintf(i->g.prefix, sizeof i->g.prefix, "%s%d.", kind, number);
}

static struct window_shape image_windows(const struct zoo_image *i, int64_t kernel, int64_t stride,
                                         int64_t padding)
{
    return (struct window_shape){i->side, i->side, kernel, stride, padding};
}

/* Windows of an odd width around each position. */
static struct window_shape around(const struct zoo_image *i, int64_t kernel, int64_t stride)
{
    return image_windows(i, kernel, stride, kernel / 2);
}

/* `norm`: NULL, or the name of a norm behind it in the place of a bias. */
static void image_convolve(struct zoo_image *i, const char *name, const char *norm, int64_t out,
                           struct window_shape at)
{
    const struct convolution_shape s = {
        .in = i->channels, .out = out, .groups = 1, .bias = !norm, .at = at};
    i->op = layer_convolution(&i->g, name, i->op, &s);
    i->channels = out;
    i->side = windows_along(&s.at, i->side);
    if (norm)
        i->op = layer_batchnorm(&i->g, norm, i->op, out, i->side * i->side);
}

static void rectify(struct zoo_image *i, const char *name)
{
    i->op = layer_relu(&i->g, name, i->op, i->side * i->side, i->channels, TENSOR_WHOLE);
}

static void image_pool(struct zoo_image *i, int64_t kernel, int64_t stride, int64_t padding,
                       bool average)
{
    const struct window_shape w = image_windows(i, kernel, stride, padding);
    i->op = layer_pool(&i->g, "pool", i->op, i->channels, &w, average);
    i->side = windows_along(&w, i->side);
}

/* The classifier's last product, divided over shards by classes. */
static void image_classify(struct zoo_image *i, int64_t in, int64_t classes)
{
    i->g.prefix[0] = '\0';
    i->op = layer_linear(&i->g, "head", i->op,
                         &(struct linear_shape){1, in, classes, true, MODEL_NO_OP, TENSOR_COLUMN});
    layer_loss(&i->g, "loss", i->op, 1, classes, false);
}

/* The same behind two hidden layers. */
static void classify_deeply(struct zoo_image *i, int64_t hidden, int64_t classes)
{
    int64_t features = i->side * i->side * i->channels;
    name_block(i, "f", 0);
    i->op =
        layer_linear(&i->g, "linear", i->op,
                     &(struct linear_shape){1, features, hidden, true, MODEL_NO_OP, TENSOR_COLUMN});
    i->op = layer_relu(&i->g, "relu", i->op, 1, hidden, TENSOR_SPLIT);
    name_block(i, "f", 1);
    i->op = layer_linear(&i->g, "linear", i->op,
                         &(struct linear_shape){1, hidden, hidden, true, MODEL_NO_OP, TENSOR_ROW});
    i->op = layer_relu(&i->g, "relu", i->op, 1, hidden, TENSOR_WHOLE);
    image_classify(i, hidden, classes);
}

/* ---- AlexNet: Krizhevsky, arXiv:1404.5997, as in torchvision; without dropout */

enum { ALEXNET_SIDE, ALEXNET_WIDTH, ALEXNET_CLASSES, ALEXNET_HIDDEN, ALEXNET_PARAMETERS };

static const struct zoo_parameter alexnet[] = {
    [ALEXNET_SIDE] = {"side", "height and width of an image in pixels", 224, 63, 4096},
    [ALEXNET_WIDTH] = {"width", "channels of the first layer", 64, 1, 4096},
    [ALEXNET_CLASSES] = {"classes", "different answers", 1000, 256, 1 << 20},
    [ALEXNET_HIDDEN] = {"hidden", "channels of the classifier's hidden layers", 4096, 1, 1 << 20},
};

static enum status build_alexnet(const int64_t *value, struct model *out)
{
    static const struct {
        int64_t channels, kernel, stride, padding; /* channels in first widths */
        bool pooled;
    } layers[] = {{1, 11, 4, 2, true},
                  {3, 5, 1, 2, true},
                  {6, 3, 1, 1, false},
                  {4, 3, 1, 1, false},
                  {4, 3, 1, 1, true}};
    struct zoo_image i = image_begin(value[ALEXNET_SIDE]);
    for (int k = 0; k < (int)(sizeof layers / sizeof *layers); k++) {
        name_block(&i, "c", k);
        image_convolve(&i, "conv", NULL, layers[k].channels * value[ALEXNET_WIDTH],
                       image_windows(&i, layers[k].kernel, layers[k].stride, layers[k].padding));
        rectify(&i, "relu");
        if (layers[k].pooled)
            image_pool(&i, 3, 2, 0, false);
    }
    classify_deeply(&i, value[ALEXNET_HIDDEN], value[ALEXNET_CLASSES]);
    return graph_finish(&i.g, "alexnet",
                        "AlexNet; bytes of text are pixels, the next one the class", out);
}

const struct zoo_entry zoo_alexnet = {
    "alexnet",          "AlexNet (image pixels are read from text)",
    ALEXNET_PARAMETERS, alexnet,
    build_alexnet,      NULL};

/* ---- VGG: Simonyan & Zisserman, ICLR 2015, table 1, columns A, B, D and E; without dropout */

static const char *const vgg_depths[] = {"11", "13", "16", "19"};

static const struct zoo_parameter vgg[] = {
    [DEPTH] = {"depth", "layers with weights: 11, 13, 16, 19", 2, 0, 3, vgg_depths},
    [SIDE] = {"side", "height and width of an image in pixels, a multiple of 32", 224, 32, 4096},
    [WIDTH] = {"width", "channels of the first layers", 64, 1, 4096},
    [CLASSES] = {"classes", "different answers", 1000, 256, 1 << 20},
    [HIDDEN] = {"hidden", "channels of the classifier's hidden layers", 4096, 1, 1 << 20},
};

static enum status build_vgg(const int64_t *value, struct model *out)
{
    static const int repeats[][BLOCKS] = {
        {1, 1, 2, 2, 2}, {2, 2, 2, 2, 2}, {2, 2, 3, 3, 3}, {2, 2, 4, 4, 4}};
    int layer = 0;
    if (value[SIDE] % 32 != 0)
        return error_set(STATUS_INVALID, "got side=%" PRId64 ", expected a multiple of 32 pixels",
                         value[SIDE]);
    struct zoo_image i = image_begin(value[SIDE]);
    for (int b = 0; b < BLOCKS; b++) {
        int64_t channels = value[WIDTH] << (b < 3 ? b : 3);
        for (int k = 0; k < repeats[value[DEPTH]][b]; k++) {
            name_block(&i, "c", layer++);
            image_convolve(&i, "conv", NULL, channels, around(&i, 3, 1));
            rectify(&i, "relu");
        }
        image_pool(&i, 2, 2, 0, false);
    }
    classify_deeply(&i, value[HIDDEN], value[CLASSES]);
    return graph_finish(&i.g, "vgg", "VGG; bytes of text are pixels, the next one the class", out);
}

const struct zoo_entry zoo_vgg = {
    "vgg", "VGG 11 to 19 (image pixels are read from text)", VGG_PARAMETERS, vgg, build_vgg, NULL};

/* ---- ResNet: He et al., CVPR 2016, table 1; the stride of a bottleneck is in its middle
 * convolution, as in torchvision */

static const char *const resnet_depths[] = {"18", "34", "50", "101", "152"};

static const struct zoo_parameter resnet[] = {
    [DEPTH] = {"depth", "layers with weights: 18, 34, 50, 101, 152", 2, 0, 4, resnet_depths},
    [SIDE] = {"side", "height and width of an image in pixels", 224, 32, 4096},
    [WIDTH] = {"width", "channels of the first layers", 64, 1, 4096},
    [CLASSES] = {"classes", "different answers", 1000, 256, 1 << 20},
};

/* y = relu(x + f(x)); where sizes change, x goes through a product of each position. */
static void add_block(struct zoo_image *i, bool bottleneck, int64_t width, int64_t stride)
{
    struct zoo_image way = *i;
    int64_t out = bottleneck ? 4 * width : width;
    image_convolve(i, "conv1", "bn1", width,
                   around(i, bottleneck ? 1 : 3, bottleneck ? 1 : stride));
    rectify(i, "relu1");
    image_convolve(i, "conv2", "bn2", bottleneck ? width : out,
                   around(i, 3, bottleneck ? stride : 1));
    if (bottleneck) {
        rectify(i, "relu2");
        image_convolve(i, "conv3", "bn3", out, around(i, 1, 1));
    }
    way.g = i->g; /* the graph has grown */
    if (stride > 1 || way.channels != out)
        image_convolve(&way, "way", "way.bn", out, around(&way, 1, stride));
    i->g = way.g;
    i->op = layer_residual(&i->g, "residual", way.op, i->op, i->side * i->side, out);
    rectify(i, "relu");
}

static enum status build_resnet(const int64_t *value, struct model *out)
{
    static const int repeats[][4] = {
        {2, 2, 2, 2}, {3, 4, 6, 3}, {3, 4, 6, 3}, {3, 4, 23, 3}, {3, 8, 36, 3}};
    int block = 0;
    struct zoo_image i = image_begin(value[SIDE]);
    name_block(&i, "b", block++);
    image_convolve(&i, "conv", "bn", value[WIDTH], around(&i, 7, 2));
    rectify(&i, "relu");
    image_pool(&i, 3, 2, 1, false);
    for (int s = 0; s < 4; s++)
        for (int k = 0; k < repeats[value[DEPTH]][s]; k++) {
            name_block(&i, "b", block++);
            add_block(&i, value[DEPTH] >= 2, value[WIDTH] << s, s > 0 && k == 0 ? 2 : 1);
        }
    i.g.prefix[0] = '\0';
    image_pool(&i, i.side, i.side, 0, true);
    image_classify(&i, i.channels, value[CLASSES]);
    return graph_finish(&i.g, "resnet", "ResNet; bytes of text are pixels, the next one the class",
                        out);
}

const struct zoo_entry zoo_resnet = {
    "resnet",          "ResNet 18 to 152 (image pixels are read from text)",
    RESNET_PARAMETERS, resnet,
    build_resnet,      NULL};
