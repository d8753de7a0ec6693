/* What is done to rows of pixels, LANES channels at a time, in registers; for the type `real`. */

typedef real NAME(vec) __attribute__((vector_size(LANES * sizeof(real)), aligned(sizeof(real)), may_alias));
typedef double NAME(wide) __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double)), may_alias));
typedef whole NAME(bits) __attribute__((vector_size(LANES * sizeof(real)), aligned(sizeof(real)), may_alias));
#define vec NAME(vec)
#define bits NAME(bits)
#define get NAME(get)
#define put NAME(put)
#define all NAME(all)
#define where_positive NAME(where_positive)

INLINE vec get(const real *p) { return *(const vec *)p; }
INLINE void put(real *p, vec v) { *(vec *)p = v; }
INLINE vec all(real f) { return f - (vec){0}; }
INLINE vec where_positive(vec of, vec v) { return (vec)((bits)v & (bits)(of > all(0))); }

/* A vector that stays in its register: compilers read it again for every product, where reading is what takes time. */
INLINE vec NAME(held)(vec v) {
#ifdef __AVX__
    if (sizeof(vec) == 32) __asm__("" : "+x"(v));
#endif
    return v;
}

INLINE void NAME(add_wide)(double *p, vec v) { *(NAME(wide) *)p += __builtin_convertvector(v, NAME(wide)); }

/* 1 / sqrt(v) for v > 0 */
INLINE vec NAME(inverse_root)(vec v) {
#if defined(__AVX512F__) && LANES == 16
    vec r = (vec)_mm512_rsqrt14_ps((__m512)v);
    return r * (all((real)1.5) - all((real)0.5) * v * r * r); /* one step of Newton: 28 bits */
#else
    vec r;
    for (int i = 0; i < LANES; i++) r[i] = 1 / (sizeof(real) == 4 ? sqrtf((float)v[i]) : (real)sqrt(v[i]));
    return r;
#endif
}

/* A row of a depthwise convolution: eight pixels at a time. */
INLINE void NAME(depthwise_of)(const real *t, const real *w, real *out, int c, int wide, int row, int k,
                               int stride, int dilation, int flip) {
    for (int ch = 0; ch < c; ch += LANES)
        for (int x = 0; x < row; x += 8) {
            vec sum[8] = {0};
            for (int ky = 0; ky < k; ky++)
                for (int kx = 0; kx < k; kx++) {
                    int tap = ky * k + kx;
                    vec v = get(w + (flip ? k * k - 1 - tap : tap) * c + ch);
                    const real *p = t + ((size_t)ky * dilation * wide + x * stride + kx * dilation) * c + ch;
                    for (int i = 0; i < 8; i++) sum[i] += v * get(p + (size_t)i * stride * c);
                }
            for (int i = 0; i < 8; i++) put(out + (x + i) * c + ch, sum[i]);
        }
}

static void NAME(depthwise)(const real *t, const real *w, real *out, int c, int wide, int row, int k,
                            int stride, int dilation, int flip) {
#define ROW(K, S, F) NAME(depthwise_of)(t, w, out, c, wide, row, K, S, dilation, F)
#define KERNEL(S, F) (k == 3 ? ROW(3, S, F) : k == 5 ? ROW(5, S, F) : ROW(7, S, F))
    if (stride > 1) KERNEL(stride, 0);
    else if (flip) KERNEL(1, 1);
    else KERNEL(1, 0);
#undef ROW
#undef KERNEL
}

/* out[p][o] = sum over taps and i of in[p + tap][i] w[tap][i][o], for so many pixels and vectors of outputs. */
INLINE void NAME(product_of)(const real *in, const real *w, real *out, int inputs, int outputs, int k, int wide,
                             int pixels, int n) {
    vec sum[8][2] = {0};
    for (int tap = 0; tap < k * k; tap++) {
        const real *at = in + ((size_t)(tap / k) * wide + tap % k) * inputs;
        for (int i = 0; i < inputs; i++, w += outputs)
            for (int j = 0; j < n; j++) {
                vec v = NAME(held)(get(w + LANES * j));
                for (int p = 0; p < pixels; p++) sum[p][j] += at[p * inputs + i] * v;
            }
    }
    for (int p = 0; p < pixels; p++)
        for (int j = 0; j < n; j++) put(out + p * outputs + LANES * j, sum[p][j]);
}

/* A row of a pointwise convolution, or of a full one on padded images: a number of pixels that four divides. */
INLINE void NAME(products)(const real *in, const real *w, real *out, int inputs, int outputs, int k, int wide, int row) {
#define PRODUCT(P, N) NAME(product_of)(in + x * inputs, w + o, out + x * outputs + o, inputs, outputs, k, wide, P, N)
    int o = 0;
    for (; o + 2 * LANES <= outputs; o += 2 * LANES)
        for (int x = 0; x < row; x += PAIRED) row - x < PAIRED ? PRODUCT(4, 2) : PRODUCT(PAIRED, 2);
    for (; o < outputs; o += LANES)
        for (int x = 0; x < row; x += 8) row - x < 8 ? PRODUCT(4, 1) : PRODUCT(8, 1);
#undef PRODUCT
}

static void NAME(product)(const real *in, const real *w, real *out, int inputs, int outputs, int row) {
    NAME(products)(in, w, out, inputs, outputs, 1, 0, row);
}

static void NAME(full_product)(const real *in, const real *w, real *out, int c, int wide, int row) {
    NAME(products)(in, w, out, c, c, 3, wide, row);
}

/* w[i][o] += sum over pixels of a[pixel][i] b[pixel][o], for so many inputs and vectors of outputs. */
INLINE void NAME(outer_of)(const real *a, const real *b, real *w, int inputs, int outputs, int pixels, int rows, int wide,
                           int count, int n) {
    vec sum[8][2] = {0};
    for (int y = 0; y < rows; y++)
        for (int x = y * wide; x < y * wide + pixels; x++)
            for (int j = 0; j < n; j++) {
                vec v = NAME(held)(get(b + x * outputs + LANES * j));
                for (int p = 0; p < count; p++) sum[p][j] += a[x * inputs + p] * v;
            }
    for (int p = 0; p < count; p++)
        for (int j = 0; j < n; j++) {
            real *to = w + p * outputs + LANES * j;
            put(to, get(to) + sum[p][j]);
        }
}

/* The same for all inputs and outputs; rows of pixels are `wide` apart. */
static void NAME(outer)(const real *a, const real *b, real *w, int inputs, int outputs, int pixels, int rows, int wide) {
#define OUTER(P, N) NAME(outer_of)(a + i, b + o, w + i * outputs + o, inputs, outputs, pixels, rows, wide, P, N)
    int o = 0;
    for (; o + 2 * LANES <= outputs; o += 2 * LANES)
        for (int i = 0; i < inputs; i += PAIRED) OUTER(PAIRED, 2);
    for (; o < outputs; o += LANES)
        for (int i = 0; i < inputs; i += 8) OUTER(8, 1);
#undef OUTER
}

/* w[tap] += sum over a row of g[x] t[x + tap] */
INLINE void NAME(taps_of)(const real *t, const real *g, real *w, int c, int wide, int pixels, int k,
                          int stride, int dilation) {
    for (int ch = 0; ch < c; ch += LANES)
        for (int ky = 0; ky < k; ky++) {
            vec sum[7] = {0};
            const real *p = t + (size_t)ky * dilation * wide * c + ch;
            for (int x = 0; x < pixels; x++) {
                vec v = get(g + x * c + ch);
                for (int kx = 0; kx < k; kx++) sum[kx] += v * get(p + (size_t)(x * stride + kx * dilation) * c);
            }
            for (int kx = 0; kx < k; kx++) {
                real *to = w + (ky * k + kx) * c + ch;
                put(to, get(to) + sum[kx]);
            }
        }
}

static void NAME(taps)(const real *t, const real *g, real *w, int c, int wide, int pixels, int k, int stride,
                       int dilation) {
#define TAPS(K) NAME(taps_of)(t, g, w, c, wide, pixels, K, stride, dilation)
    if (k == 3) TAPS(3);
    else if (k == 5) TAPS(5);
    else TAPS(7);
#undef TAPS
}

/* dx at the pixels that one row of outputs came from: add w[tap] * g to each */
static void NAME(scatter)(const Block *b, int wide, const real *w, const real *g, real *top, int c) {
    int k = b->kernel, pixels = out_size(b->width, b->stride);
    for (int tap = 0; tap < k * k; tap++) {
        real *to = top + ((size_t)(tap / k) * b->dilation * wide + (tap % k) * b->dilation) * c;
        for (int p = 0; p < pixels; p++)
            for (int ch = 0; ch < c; ch += LANES) {
                real *q = to + (size_t)p * b->stride * c + ch;
                put(q, get(q) + get(w + tap * c + ch) * get(g + p * c + ch));
            }
    }
}

/* The sums of v and of v * other over pixels, for one vector of channels; v only where other * scale + shift > 0, if asked. */
INLINE void NAME(moments)(const real *v, const real *other, int c, int pixels, int rectified, vec scale, vec shift,
                          vec *sum, vec *product) {
    vec first[4] = {0}, second[4] = {0};
    int x = 0;
#define ADD(i) \
    vec a = get(v + (size_t)(x + i) * c), b = get(other + (size_t)(x + i) * c); \
    if (rectified) a = where_positive(b * scale + shift, a); \
    first[i] += a, second[i] += a * b
    for (; x + 4 <= pixels; x += 4)
        for (int i = 0; i < 4; i++) { ADD(i); }
    for (; x < pixels; x++) { ADD(0); }
#undef ADD
    *sum = (first[0] + first[1]) + (first[2] + first[3]);
    *product = (second[0] + second[1]) + (second[2] + second[3]);
}

/* sum[c] += v, square[c] += v * other, over a row */
static void NAME(add_moments)(const real *v, const real *other, int c, int pixels, double *sum, double *square) {
    for (int ch = 0; ch < c; ch += LANES) {
        vec first, second;
        NAME(moments)(v + ch, other + ch, c, pixels, 0, all(1), all(0), &first, &second);
        NAME(add_wide)(sum + ch, first);
        NAME(add_wide)(square + ch, second);
    }
}

static void NAME(squares)(const real *t, real *squared, size_t count) {
    for (size_t i = 0; i < count; i++) {
        real square = t[i] * t[i];
        squared[i] = square < (real)LARGEST_SQUARE ? square : (real)LARGEST_SQUARE;
    }
}

/* mean += std * noise; variance becomes noise / (2 std), by which a gradient reaches it.
 *
 * Each chunk of a row has a place and a sign of its own in a table of normal numbers: any two
 * activations are uncorrelated, and nothing need be kept to draw them again. */
static void NAME(draw)(const real *table, const uint32_t *key, uint32_t row, real *mean, real *variance, int count) {
    uint32_t begin = mixture(row ^ key[0]);
    for (int start = 0; start < count; start += CHUNK) {
        uint32_t h = mixture((begin ^ (uint32_t)(start / CHUNK)) + key[1]);
        const real *drawn = table + h % TABLE; /* anywhere, so that each channel reads all of it */
        vec sign = all(h >> 31 ? -1 : 1);
        int end = count - start < CHUNK ? count - start : CHUNK;
        for (int i = 0; i < end; i += LANES) {
            vec v = get(variance + start + i) + all((real)FLOOR), r = NAME(inverse_root)(v), e = sign * get(drawn + i);
            put(mean + start + i, get(mean + start + i) + v * r * e);
            put(variance + start + i, all((real)0.5) * e * r);
        }
    }
}
