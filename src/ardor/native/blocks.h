/* Depthwise-separable blocks, channels last, one image at a time, for the type `real`.
 *
 * A block rectifies its input if asked, convolves it depthwise and then pointwise. Its input may be
 * the raw output of another block, normalised on the way in: v = x * scale + shift, per channel. What
 * the backward pass can make again it makes again: only the output of each block is kept.
 *
 * Where the weights have variances, activations are drawn instead of weights (local reparametrisation):
 * a mean and a variance are convolved, and noise is added that depends on its place alone.
 *
 * Channels come in eights. Sums over images are left to the caller, image by image, so that results
 * do not depend on the number of threads.
 */

typedef real NAME(vec) __attribute__((vector_size(LANES * sizeof(real)), aligned(sizeof(real)), may_alias));
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

/* The input of one image, normalised and rectified, into a border that is zero already. */
static void NAME(prepare)(const Block *b, Shape s, const real *x, real *t) {
    const real *scale = b->scale, *shift = b->shift;
    int c = b->channels;
    for (int y = 0; y < b->height; y++) {
        const real *from = x + (size_t)y * b->width * c;
        real *to = t + ((size_t)(y + s.pad) * s.wide + s.pad) * c;
        for (int p = 0; p < b->width; p++)
            for (int ch = 0; ch < c; ch += LANES) {
                vec v = get(from + p * c + ch);
                if (scale) v = v * get(scale + ch) + get(shift + ch);
                put(to + p * c + ch, b->relu ? where_positive(v, v) : v);
            }
    }
}

/* A row of a depthwise convolution: eight pixels and eight channels at a time, in registers. */
INLINE void NAME(depthwise_of)(const real *t, const real *w, real *out, int c, int wide, int row,
                               int k, int stride, int dilation, int flip) {
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

/* out[pixel][o] = sum_i in[pixel][i] w[i][o]: eight pixels, one or two vectors of outputs at a time. */
INLINE void NAME(product_of)(const real *in, const real *w, real *out, int c, int row, int o, int n) {
    for (int x = 0; x < row; x += 8) {
        vec sum[8][2] = {0};
        for (int i = 0; i < c; i++)
            for (int j = 0; j < n; j++) {
                vec v = get(w + i * c + o + LANES * j);
                for (int p = 0; p < 8; p++) sum[p][j] += in[(x + p) * c + i] * v;
            }
        for (int p = 0; p < 8; p++)
            for (int j = 0; j < n; j++) put(out + (x + p) * c + o + LANES * j, sum[p][j]);
    }
}

static void NAME(product)(const real *in, const real *w, real *out, int c, int row) {
    int o = 0;
    for (; o + 2 * LANES <= c; o += 2 * LANES) NAME(product_of)(in, w, out, c, row, o, 2);
    for (; o < c; o += LANES) NAME(product_of)(in, w, out, c, row, o, 1);
}

/* w[i][o] += sum over pixels of a[pixel][i] b[pixel][o] */
INLINE void NAME(outer_of)(const real *a, const real *b, real *w, int c, int pixels, int i, int o, int n) {
    vec sum[8][2] = {0};
    for (int x = 0; x < pixels; x++)
        for (int j = 0; j < n; j++) {
            vec v = get(b + x * c + o + LANES * j);
            for (int p = 0; p < 8; p++) sum[p][j] += a[x * c + i + p] * v;
        }
    for (int p = 0; p < 8; p++)
        for (int j = 0; j < n; j++) {
            real *to = w + (i + p) * c + o + LANES * j;
            put(to, get(to) + sum[p][j]);
        }
}

static void NAME(outer)(const real *a, const real *b, real *w, int c, int pixels) {
    for (int i = 0; i < c; i += 8) {
        int o = 0;
        for (; o + 2 * LANES <= c; o += 2 * LANES) NAME(outer_of)(a, b, w, c, pixels, i, o, 2);
        for (; o < c; o += LANES) NAME(outer_of)(a, b, w, c, pixels, i, o, 1);
    }
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

static void NAME(taps)(const real *t, const real *g, real *w, int c, int wide, int pixels, int k,
                       int stride, int dilation) {
#define TAPS(K) NAME(taps_of)(t, g, w, c, wide, pixels, K, stride, dilation)
    if (k == 3) TAPS(3);
    else if (k == 5) TAPS(5);
    else TAPS(7);
#undef TAPS
}

/* dx at the pixels that one strided output row came from */
static void NAME(scatter)(const Block *b, Shape s, const real *w, const real *g, real *top) {
    int c = b->channels, k = b->kernel;
    for (int tap = 0; tap < k * k; tap++) {
        real *to = top + ((size_t)(tap / k) * b->dilation * s.wide + (tap % k) * b->dilation) * c;
        for (int p = 0; p < s.out_wide; p++)
            for (int ch = 0; ch < c; ch += LANES) {
                real *q = to + (size_t)p * b->stride * c + ch;
                put(q, get(q) + get(w + tap * c + ch) * get(g + p * c + ch));
            }
    }
}

/* sum[c] += v, square[c] += v * other, over a row */
static void NAME(add_moments)(const real *v, const real *other, int c, int pixels, double *sum, double *square) {
    for (int ch = 0; ch < c; ch += LANES) {
        vec first = all(0), second = all(0);
        for (int x = 0; x < pixels; x++) {
            vec a = get(v + x * c + ch);
            first += a;
            second += a * get(other + x * c + ch);
        }
        for (int i = 0; i < LANES; i++) { sum[ch + i] += first[i]; square[ch + i] += second[i]; }
    }
}

/* Squares of a padded image. */
static void NAME(squares)(const real *t, real *squared, size_t count) {
    for (size_t i = 0; i < count; i++) {
        real square = t[i] * t[i];
        squared[i] = square < (real)LARGEST_SQUARE ? square : (real)LARGEST_SQUARE;
    }
}

/* mean += std * noise; variance becomes noise / (2 std), by which a gradient reaches it. */
static void NAME(draw)(const Block *b, uint32_t stream, size_t start, real *restrict mean,
                       real *restrict variance, float *restrict drawn, int count) {
    noise(b->key, stream, (uint32_t)start, drawn, count);
    for (int i = 0; i < count; i++) {
        real std = (real)sqrt(variance[i] + (real)FLOOR);
        mean[i] += std * drawn[i];
        variance[i] = (real)0.5 * drawn[i] / std;
    }
}

/* What the depthwise convolution gives for one row: certain, or drawn, with the factor of its variance. */
static void NAME(activations)(const Block *b, Shape s, const real *t, const real *squared, int n, int y,
                              real *line, real *factor, float *drawn) {
    size_t top = (size_t)y * b->stride * s.wide * b->channels, count = (size_t)s.row * b->channels;
    NAME(depthwise)(t + top, b->depthwise, line, b->channels, s.wide, s.row, b->kernel, b->stride, b->dilation, 0);
    if (!b->depthwise_var) return;
    NAME(depthwise)(squared + top, b->depthwise_var, factor, b->channels, s.wide, s.row, b->kernel, b->stride,
                    b->dilation, 0);
    NAME(draw)(b, 0, ((size_t)n * s.out_high + y) * count, line, factor, drawn, (int)count);
}

/* z = the block's output; sums (images, 2, channels) of z and z * z. */
void NAME(block_forward)(const Block *b, real *z, double *sums) {
    Shape s = shape_of(b);
    int c = b->channels, uncertain = b->depthwise_var != 0;
    size_t padded = (size_t)s.high * s.wide * c, count = (size_t)s.row * c;
#pragma omp parallel
    {
        real *t = malloc(sizeof(real) * ((1 + uncertain) * padded + 5 * count)), *squared = t + padded;
        real *line = t + (1 + uncertain) * padded, *factor = line + count, *made = factor + count;
        real *spread = made + count;
        float *drawn = (float *)(spread + count);
        memset(t, 0, sizeof(real) * padded);
#pragma omp for schedule(static)
        for (int n = 0; n < b->images; n++) {
            double *sum = sums + (size_t)n * 2 * c;
            memset(sum, 0, sizeof(double) * 2 * c);
            NAME(prepare)(b, s, (const real *)b->x + (size_t)n * b->height * b->width * c, t);
            if (uncertain) NAME(squares)(t, squared, padded);
            for (int y = 0; y < s.out_high; y++) {
                NAME(activations)(b, s, t, squared, n, y, line, factor, drawn);
                NAME(product)(line, b->pointwise, made, c, s.row);
                if (uncertain) {
                    NAME(squares)(line, factor, count);
                    NAME(product)(factor, b->pointwise_var, spread, c, s.row);
                    NAME(draw)(b, 1, ((size_t)n * s.out_high + y) * count, made, spread, drawn, (int)count);
                }
                memcpy(z + ((size_t)n * s.out_high + y) * s.out_wide * c, made, sizeof(real) * s.out_wide * c);
                NAME(add_moments)(made, made, c, s.out_wide, sum, sum + c);
            }
        }
        free(t);
    }
}

/* dz for one row: gate * g * slope_g + slope_z * z + level, g only where the output was not rectified away. */
static void NAME(output_gradient)(const Backward *d, real gate, size_t at, int c, int pixels, real *dz) {
    const real *z = (const real *)d->z + at, *g = (const real *)d->g + at;
    const real *scale = d->out_scale, *shift = d->out_shift;
    const real *slope_g = d->slope_g, *slope_z = d->slope_z, *level = d->level;
    for (int p = 0; p < pixels; p++)
        for (int ch = 0; ch < c; ch += LANES) {
            vec v = get(z + p * c + ch), e = gate * get(g + p * c + ch);
            if (scale) e = where_positive(v * get(scale + ch) + get(shift + ch), e);
            put(dz + p * c + ch, get(slope_g + ch) * e + get(slope_z + ch) * v + get(level + ch));
        }
}

/* Gradients of a block, from g, that of its normalised (and rectified) output.
 *
 * dx is added to where the block's input is raw; where the input is normalised on the way in, dx is
 * written as the gradient of the normalised input, with sums (images, 2, channels) of dx and dx * x.
 * Weight gradients are per image.
 */
void NAME(block_backward)(const Block *b, const Backward *d) {
    Shape s = shape_of(b);
    int c = b->channels, k = b->kernel, uncertain = b->depthwise_var != 0;
    size_t padded = (size_t)s.high * s.wide * c, count = (size_t)s.row * c, taps = (size_t)k * k * c;
#pragma omp parallel
    {
        real *t = malloc(sizeof(real) * ((2 + 2 * uncertain) * padded + 9 * count)), *u = t + padded;
        real *squared = u + padded, *w = squared + padded, *line = u + (1 + 2 * uncertain) * padded;
        real *factor = line + count, *square = factor + count, *spread = square + count, *dz = spread + count;
        real *dline = dz + count, *back = dline + count, *more = back + count;
        float *drawn = (float *)(more + count);
        memset(t, 0, sizeof(real) * ((2 + 2 * uncertain) * padded + 9 * count));
#pragma omp for schedule(static)
        for (int n = 0; n < b->images; n++) {
            const real *x = (const real *)b->x + (size_t)n * b->height * b->width * c;
            real *ddw = (real *)d->ddepthwise + n * taps, *dpw = (real *)d->dpointwise + (size_t)n * c * c;
            real *dvw = uncertain ? (real *)d->ddepthwise_var + n * taps : NULL;
            real *dvp = uncertain ? (real *)d->dpointwise_var + (size_t)n * c * c : NULL;
            real gate = d->gate ? ((const real *)d->gate)[n] : 1;
            memset(ddw, 0, sizeof(real) * taps);
            memset(dpw, 0, sizeof(real) * c * c);
            if (b->stride > 1) memset(u, 0, sizeof(real) * padded); /* scattered into, elsewhere overwritten */
            NAME(prepare)(b, s, x, t);
            if (uncertain) {
                memset(dvw, 0, sizeof(real) * taps);
                memset(dvp, 0, sizeof(real) * c * c);
                if (b->stride > 1) memset(w, 0, sizeof(real) * padded);
                NAME(squares)(t, squared, padded);
            }
            for (int y = 0; y < s.out_high; y++) {
                size_t top = (size_t)y * b->stride * s.wide * c, row = (size_t)n * s.out_high + y;
                size_t into = b->stride > 1 ? top : ((size_t)(y + s.pad) * s.wide + s.pad) * c;
                NAME(activations)(b, s, t, squared, n, y, line, factor, drawn);
                NAME(output_gradient)(d, gate, row * s.out_wide * c, c, s.out_wide, dz);
                NAME(product)(dz, d->transposed, dline, c, s.row);
                NAME(outer)(line, dz, dpw, c, s.out_wide);
                if (uncertain) {
                    NAME(squares)(line, square, count);
                    NAME(product)(square, b->pointwise_var, spread, c, s.row);
                    NAME(draw)(b, 1, row * count, back, spread, drawn, (int)count);
                    for (size_t i = 0; i < count; i++) spread[i] *= dz[i];
                    NAME(outer)(square, spread, dvp, c, s.out_wide);
                    NAME(product)(spread, d->transposed_var, more, c, s.row);
                    for (size_t i = 0; i < count; i++) {
                        dline[i] += 2 * line[i] * more[i];
                        factor[i] *= dline[i];
                    }
                    NAME(taps)(squared + top, factor, dvw, c, s.wide, s.out_wide, k, b->stride, b->dilation);
                    if (b->stride > 1) NAME(scatter)(b, s, b->depthwise_var, factor, w + into);
                    else memcpy(w + into, factor, sizeof(real) * s.out_wide * c);
                }
                NAME(taps)(t + top, dline, ddw, c, s.wide, s.out_wide, k, b->stride, b->dilation);
                if (b->stride > 1) NAME(scatter)(b, s, b->depthwise, dline, u + into);
                else memcpy(u + into, dline, sizeof(real) * s.out_wide * c);
            }
            double *sum = d->sums + (size_t)n * 2 * c;
            memset(sum, 0, sizeof(double) * 2 * c);
            for (int y = 0; y < b->height; y++) {
                size_t inner = ((size_t)(y + s.pad) * s.wide + s.pad) * c, outer = (size_t)y * s.wide * c;
                const real *from = u + inner, *from_var = w + inner, *seen = t + inner;
                real *to = (real *)d->dx + ((size_t)n * b->height + y) * b->width * c;
                if (b->stride == 1) {
                    NAME(depthwise)(u + outer, b->depthwise, back, c, s.wide, s.row, k, 1, b->dilation, 1);
                    from = back;
                    if (uncertain)
                        NAME(depthwise)(w + outer, b->depthwise_var, more, c, s.wide, s.row, k, 1, b->dilation, 1);
                    from_var = more;
                }
                for (int i = 0; i < b->width * c; i += LANES) {
                    vec v = get(from + i), input = get(seen + i);
                    if (uncertain) v += all(2) * input * get(from_var + i);
                    if (b->relu) v = where_positive(input, v);
                    if (!b->scale) v += get(to + i);
                    put(to + i, v);
                }
                if (b->scale) NAME(add_moments)(to, x + (size_t)y * b->width * c, c, b->width, sum, sum + c);
            }
        }
        free(t);
    }
}

/* out = sum_k gate[k][n] * (rectified) (z[k] * scale[k] + shift[k]); plain z[k] where scale[k] is null. */
void NAME(combine)(int terms, int images, int pixels, int c, const real **z, const real **scale,
                   const real **shift, const int *relu, const real *gate, real *out) {
#pragma omp parallel for schedule(static)
    for (int n = 0; n < images; n++)
        for (int p = 0; p < pixels; p++)
            for (int ch = 0; ch < c; ch += LANES) {
                size_t at = ((size_t)n * pixels + p) * c + ch;
                vec sum = all(0);
                for (int k = 0; k < terms; k++) {
                    vec v = get(z[k] + at);
                    if (scale[k]) v = v * get(scale[k] + ch) + get(shift[k] + ch);
                    sum += all(gate[(size_t)k * images + n]) * (relu[k] ? where_positive(v, v) : v);
                }
                put(out + at, sum);
            }
}

/* sums (terms, images, 2, channels) of g and g * z[k], where the output was not rectified away. */
void NAME(combine_sums)(int terms, int images, int pixels, int c, const real **z, const real **scale,
                        const real **shift, const int *relu, const real *g, double *sums) {
#pragma omp parallel for schedule(static)
    for (int n = 0; n < images; n++)
        for (int k = 0; k < terms; k++)
            for (int ch = 0; ch < c; ch += LANES) {
                double *sum = sums + ((size_t)k * images + n) * 2 * c;
                vec first = all(0), second = all(0);
                for (int p = 0; p < pixels; p++) {
                    size_t at = ((size_t)n * pixels + p) * c + ch;
                    vec v = get(z[k] + at), e = get(g + at), seen = v;
                    if (scale[k]) seen = v * get(scale[k] + ch) + get(shift[k] + ch);
                    if (relu[k]) e = where_positive(seen, e);
                    first += e;
                    second += e * v;
                }
                for (int i = 0; i < LANES; i++) { sum[ch + i] = first[i]; sum[c + ch + i] = second[i]; }
            }
}

#undef vec
#undef bits
#undef get
#undef put
#undef all
#undef where_positive
