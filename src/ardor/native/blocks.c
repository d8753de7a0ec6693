/* The native half of kernels.py, for float and for double. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

typedef struct {
    int images, height, width, channels, kernel, stride, dilation, relu;
    const void *x, *scale, *shift; /* (images, height, width, channels); scale may be null */
    const void *depthwise;         /* (kernel * kernel, channels) */
    const void *pointwise;         /* (channels in, channels out) */
    const void *depthwise_var, *pointwise_var; /* variances of both, null where weights are certain */
    uint32_t key[2];                           /* of the noise */
} Block;

typedef struct {
    const void *z, *g, *gate;                   /* output; gradient of it normalised; (images) or null */
    const void *slope_g, *slope_z, *level;      /* (channels) */
    const void *out_scale, *out_shift;          /* (channels), null unless the output is rectified */
    const void *transposed, *transposed_var;    /* pointwise, (channels out, channels in) */
    void *dx, *ddepthwise, *dpointwise, *ddepthwise_var, *dpointwise_var;
    double *sums;
} Backward;

typedef struct { int pad, high, wide, out_high, out_wide, row; } Shape;

/* Sizes of a padded image; rows are rounded up to eight pixels, computed but not kept. */
static Shape shape_of(const Block *b) {
    Shape s;
    s.pad = b->dilation * (b->kernel / 2);
    s.out_high = (b->height - 1) / b->stride + 1;
    s.out_wide = (b->width - 1) / b->stride + 1;
    s.row = (s.out_wide + 7) / 8 * 8;
    s.high = b->height + 2 * s.pad + b->stride;
    int read = s.row * b->stride + 2 * s.pad, held = (b->width + 7) / 8 * 8 + 2 * s.pad;
    s.wide = read > held ? read : held;
    return s;
}

/* A good mixture of 32 bits (Wellons, "lowbias32"). */
INLINE uint32_t mixture(uint32_t x) {
    x ^= x >> 16;
    x *= 0x21f0aaadu;
    x ^= x >> 15;
    x *= 0x735a2d97u;
    return x ^ x >> 15;
}

/* log u for 0 < u <= 1, to float precision (the polynomial of Cephes). */
INLINE float logarithm(float u) {
    uint32_t word;
    memcpy(&word, &u, 4);
    int32_t power = (int32_t)(word - 0x3f3504f3u) >> 23;
    word -= (uint32_t)power << 23;
    float x, y = 7.0376836292e-2f;
    memcpy(&x, &word, 4);
    x -= 1;
    y = y * x - 1.1514610310e-1f;
    y = y * x + 1.1676998740e-1f;
    y = y * x - 1.2420140846e-1f;
    y = y * x + 1.4249322787e-1f;
    y = y * x - 1.6668057665e-1f;
    y = y * x + 2.0000714765e-1f;
    y = y * x - 2.4999993993e-1f;
    y = y * x + 3.3333331174e-1f;
    return x + x * x * (x * y - 0.5f) + (float)power * 0.69314718056f;
}

/* Standard normal numbers by their place in a sequence: made again, not kept (Box and Muller). */
static void noise(const uint32_t *key, uint32_t stream, uint32_t start, float *restrict out, int count) {
    float *restrict second = out + count / 2;
    for (int i = 0; i < count / 2; i++) {
        uint32_t a = mixture(mixture((start + (uint32_t)i) ^ key[0]) + key[1] + stream), b = mixture(a ^ 0x9e3779b9u);
        float u = (float)(int32_t)((a >> 8) + 1) * 0x1p-24f, turn = (float)(int32_t)(b >> 8) * 0x1p-22f;
        float radius = sqrtf(-2 * logarithm(u));
        int32_t quarter = (int32_t)(turn + 0.5f);
        float x = (turn - (float)quarter) * 1.57079632679f, q = x * x;
        float sine = x + x * q * ((-1.9515295891e-4f * q + 8.3321608736e-3f) * q - 1.6666654611e-1f);
        float cosine = 1 - 0.5f * q + q * q * ((2.443315712e-5f * q - 1.388731625e-3f) * q + 4.166664568e-2f);
        float along = quarter & 1 ? sine : cosine, across = quarter & 1 ? cosine : sine;
        out[i] = radius * ((quarter + 1) & 2 ? -along : along);
        second[i] = radius * (quarter & 2 ? -across : across);
    }
}

#define FLOOR 1e-16            /* inside the root, as in layers.py */
#define LARGEST_SQUARE 1e28

#define LANES 8
#define real float
#define whole int
#define NAME(x) x##_float8
#include "blocks.h"
#undef LANES
#undef NAME

#define LANES 16
#define NAME(x) x##_float16
#include "blocks.h"
#undef LANES
#undef NAME
#undef real
#undef whole

#define LANES 8
#define real double
#define whole long long
#define NAME(x) x##_double
#include "blocks.h"
