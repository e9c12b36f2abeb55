/* Labels beside points: each takes the first place, in eight directions at growing distance, that
 * covers neither a point nor an earlier label. */
#include "plots/labels.h"

static const double mark = 6; /* half the side of the square that a point occupies */

static bool overlap(double x, double y, double w, double h, double x2, double y2, double w2,
                    double h2)
{
    return x < x2 + w2 && x2 < x + w && y < y2 + h2 && y2 < y + h;
}

/* Is the box of label i with lower left corner (x, y) free? */
static bool is_free(const struct label *label, size_t i, double x, double y,
                    const double (*obstacle)[2], size_t obstacles)
{
    double w = label[i].width, h = label[i].height;
    for (size_t k = 0; k < obstacles; k++)
        if (overlap(x, y, w, h, obstacle[k][0] - mark, obstacle[k][1] - mark, 2 * mark, 2 * mark))
            return false;
    for (size_t k = 0; k < i; k++)
        if (label[k].placed && overlap(x, y, w, h, label[k].x, label[k].y - label[k].height / 2,
                                       label[k].width, label[k].height))
            return false;
    return true;
}

static void label_place(struct label *label, size_t i, const double (*obstacle)[2],
                        size_t obstacles, double width, double height)
{
    /* directions, best first; x is mirrored for labels that are better on the left */
    static const int direction[][2] = {{1, 0}, {1, -1}, {0, -1},  {1, 1},
                                       {0, 1}, {-1, 0}, {-1, -1}, {-1, 1}};
    struct label *l = &label[i];
    l->placed = false;
    for (int ring = 1; ring <= 8; ring++) {
        double distance = mark + 3 + 14.0 * (ring - 1);
        for (size_t k = 0; k < sizeof direction / sizeof *direction; k++) {
            int side = l->left ? -1 : 1;
            int dx = side * direction[k][0], dy = side * direction[k][1];
            double x = l->point_x + dx * distance - l->width * (1 - dx) / 2;
            double y = l->point_y + dy * (distance + l->height / 2) - l->height / 2;
            if (x < 0 || y < 0 || x + l->width > width || y + l->height > height ||
                !is_free(label, i, x, y, obstacle, obstacles))
                continue;
            l->x = x;
            l->y = y + l->height / 2;
            l->placed = true;
            return;
        }
    }
}

void labels_place(struct label *label, size_t n, const double (*obstacle)[2], size_t obstacles,
                  double width, double height)
{
    for (size_t i = 0; i < n; i++)
        label_place(label, i, obstacle, obstacles, width, height);
}
