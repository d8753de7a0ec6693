/* The native half of kernels.py, for float and for double.
 *
 * A state is the sum of terms under gates. A term is a tensor, or a chain of blocks on a tensor.
 * A block is a pool, or rectifies its input if asked and convolves it,
 * depthwise and then pointwise, or pointwise only, or full (3x3, stride 1); its output is normalised by the statistics of the
 * batch. Everything is channels last, and goes image by image. A pointwise block with a stride of two
 * pairs each second pixel with its lower right neighbour, so that none is lost (FactorizedReduce).
 *
 * Only the raw output of each block is kept. Normalisation and ReLU are applied as the next block, or the
 * sum, reads it: v = z * scale + shift, per channel. The backward pass makes again what it needs.
 *
 * Where weights have variances, activations are drawn instead of weights (local reparametrisation): a
 * mean and a variance are convolved, and noise is added that follows from its place alone.
 *
 * Sums over images are taken in GROUPS, and then over groups in order, so that no result depends on the
 * number of threads.
 */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif
#ifdef _OPENMP
#include <omp.h>
static int threads(void) { return omp_get_max_threads(); }
static int thread(void) { return omp_get_thread_num(); }
#else
static int threads(void) { return 1; }
static int thread(void) { return 0; }
#endif

#define INLINE static inline __attribute__((always_inline))
#define GROUPS 16
#ifdef __AVX512F__
#define PAIRED 8 /* pixels, or inputs, whose sums fit into registers where each has two vectors of outputs */
#else
#define PAIRED 4
#endif
#define FLOOR 1e-16 /* inside the root, as in layers.py */
#define LARGEST_SQUARE 1e28
#define TABLE 65536 /* numbers in the table of noise, then CHUNK more */
#define CHUNK 512   /* neighbours that share a place in it */

enum { SEPARABLE, AVERAGE, MAXIMUM, POINTWISE, FULL };

typedef struct {
    int kind, kernel, stride, dilation;
    int relu, relu_last, bare; /* on the input; on the normalised output; whether that is none */
    int height, width, inputs; /* of the input; its channels, or twice as many where pixels are paired */
    uint32_t key[2];     /* of the noise */
    double eps;
    const void *depthwise, *pointwise;                 /* (channels, kernel * kernel), (channels, inputs, places) */
    const void *depthwise_log_var, *pointwise_log_var; /* null where weights are certain */
    const void *gamma, *beta;                          /* of the normalisation; null without */
    void *z, *mean, *spread;                           /* the output, its mean, 1 / its standard deviation */
    void *ddepthwise, *dpointwise, *ddepthwise_log_var, *dpointwise_log_var, *dgamma, *dbeta;
} Block;

typedef struct {
    const void *x; /* (images, height, width, channels) */
    void *dx;
    int size, blocks; /* elements of one image of x */
    Block *block;
} Term;

typedef struct {
    int images, height, width, channels, terms; /* of the sum */
    const Term *term; /* those of one x side by side */
    const void *gate; /* (terms, images) */
    const void *noise; /* (TABLE + CHUNK) standard normal numbers; null where all is certain */
    void *out;
    const void *g;
    void *dgate; /* (terms, images) */
} State;

/* A good mixture of 32 bits (Wellons, "lowbias32"). */
INLINE uint32_t mixture(uint32_t x) {
    x ^= x >> 16;
    x *= 0x21f0aaadu;
    x ^= x >> 15;
    x *= 0x735a2d97u;
    return x ^ x >> 15;
}

INLINE int out_size(int size, int stride) { return (size - 1) / stride + 1; }
INLINE int padded(const Block *b) { return b->kind == SEPARABLE || b->kind == FULL; }
INLINE int places(const Block *b) { return b->kind == FULL ? b->kernel * b->kernel : 1; } /* that mix channels */
INLINE size_t rounded(size_t count) { return (count + 15) / 16 * 16; }

/* An image with a border; rows hold eights of pixels, read but not kept. */
typedef struct { int border, wide; size_t size; } Frame;

static Frame frame_of(const Block *b, int channels) {
    int border = padded(b) ? b->dilation * (b->kernel / 2) : 0;
    int read = (out_size(b->width, b->stride) + 7) / 8 * 8 * b->stride, held = (b->width + 7) / 8 * 8;
    int wide = (read > held ? read : held) + 2 * border;
    Frame f = {border, wide, (size_t)(b->height + 2 * border + b->stride) * wide * channels};
    if (!padded(b)) f.size = 0;
    return f;
}

#define LANES 8
#define real float
#define whole int
#define NAME(x) x##_float8
#include "rows.h"
#include "blocks.h"
#include "pools.h"
#include "chains.h"
#include "states.h"
#undef LANES
#undef NAME

#define LANES 16
#define NAME(x) x##_float16
#include "rows.h"
#include "blocks.h"
#include "pools.h"
#include "chains.h"
#include "states.h"
#undef LANES
#undef NAME
#undef real
#undef whole

#define LANES 8
#define real double
#define whole long long
#define NAME(x) x##_double
#include "rows.h"
#include "blocks.h"
#include "pools.h"
#include "chains.h"
#include "states.h"
