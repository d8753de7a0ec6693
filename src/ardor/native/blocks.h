/* One block on one image, forwards and backwards. */

/* A block in its place, and what a call makes of it: weights laid out for rows, sums, gradients. */
typedef struct {
    const Block *b;
    int level, last;                                 /* its place in the chain, and whether it ends it */
    real *taps, *taps_var;                           /* (kernel * kernel, channels) */
    real *matrix, *matrix_var, *transposed_var;      /* (inputs, channels), the same, (channels, inputs) */
    real *flipped;                                   /* of a full one, (taps backwards, channels, inputs); */
                                                     /* its matrix is (taps, inputs, channels) */
    real *scale, *shift;                             /* of the normalised output */
    real *slope_g, *slope_z, *level_z;               /* of the gradient of z, as in that of a BatchNorm */
    double *sums;                                    /* (GROUPS, 2, channels) */
    real *grads;                                     /* (GROUPS, gradients): taps, matrix; and of their variances */
    real *between;                                   /* gradient of the normalised output, if a block reads it */
} NAME(Work);
#define Work NAME(Work)

/* What a thread works with: padded images (input, squares, gradients of mean and variance) and rows. */
typedef struct {
    real *t, *squared, *u, *v;
    real *line, *factor, *square, *spread, *made, *dz, *dline, *back, *more;
    size_t size; /* of all images */
} NAME(Scratch);
#define Scratch NAME(Scratch)

INLINE size_t NAME(taps_size)(const Block *b, int c) {
    return b->kind == SEPARABLE ? rounded((size_t)b->kernel * b->kernel * c) : 0;
}
INLINE size_t NAME(matrix_size)(const Block *b, int c) { return b->pointwise ? (size_t)places(b) * b->inputs * c : 0; }
INLINE size_t NAME(grads_size)(const Block *b, int c) {
    return (NAME(taps_size)(b, c) + NAME(matrix_size)(b, c)) * (b->pointwise_log_var ? 2 : 1);
}

/* The input of one image, normalised and rectified, inside a border that is zero already. */
static void NAME(prepare)(const Block *b, Frame f, const real *x, const Work *before, Scratch *a, int c) {
    for (int y = 0; y < b->height; y++) {
        const real *from = x + (size_t)y * b->width * c;
        real *to = a->t + ((size_t)(y + f.border) * f.wide + f.border) * c;
        for (int p = 0; p < b->width; p++)
            for (int ch = 0; ch < c; ch += LANES) {
                vec v = get(from + p * c + ch);
                if (before) v = v * get(before->scale + ch) + get(before->shift + ch);
                put(to + p * c + ch, b->relu ? where_positive(v, v) : v);
            }
    }
    if (b->depthwise_log_var) NAME(squares)(a->t, a->squared, f.size);
}

/* Pixel p of the row that a pointwise block reads, in the image x or its gradient; null outside of it. */
INLINE real *NAME(pixel)(const Block *b, const real *x, int y, int p, int second) {
    int row = y * b->stride + second, column = p * b->stride + second, c = b->inputs / b->stride;
    return row < b->height && column < b->width ? (real *)x + ((size_t)row * b->width + column) * c : NULL;
}

/* The rectified input of a pointwise block, for one row. */
static void NAME(gather_pixels)(const Block *b, const real *x, int y, real *line) {
    int stride = b->stride, wide = out_size(b->width, stride), c = b->inputs / stride;
    const real *row = x + (size_t)y * wide * c; /* where no pixels are paired */
    for (int i = 0; stride == 1 && i < wide * c; i += LANES) put(line + i, where_positive(get(row + i), get(row + i)));
    for (int p = 0; stride > 1 && p < wide; p++)
        for (int second = 0; second < stride; second++, line += c) {
            const real *from = NAME(pixel)(b, x, y, p, second);
            for (int ch = 0; ch < c; ch += LANES) put(line + ch, from ? where_positive(get(from + ch), get(from + ch)) : all(0));
        }
}

/* Adds to dx what one row of a pointwise block passes back. */
static void NAME(scatter_pixels)(const Block *b, const real *line, const real *dline, int y, real *dx) {
    int stride = b->stride, wide = out_size(b->width, stride), c = b->inputs / stride;
    real *row = dx + (size_t)y * wide * c;
    for (int i = 0; stride == 1 && i < wide * c; i += LANES)
        put(row + i, get(row + i) + where_positive(get(line + i), get(dline + i)));
    for (int p = 0; stride > 1 && p < wide; p++)
        for (int second = 0; second < stride; second++, line += c, dline += c) {
            real *to = NAME(pixel)(b, dx, y, p, second);
            for (int ch = 0; to && ch < c; ch += LANES) put(to + ch, get(to + ch) + where_positive(get(line + ch), get(dline + ch)));
        }
}

/* What the depthwise convolution gives for one row: certain, or drawn, with the factor of its variance. */
static void NAME(activations)(const State *s, const Work *w, Frame f, Scratch *a, int n, int y) {
    const Block *b = w->b;
    int c = s->channels, high = out_size(b->height, b->stride), row = (out_size(b->width, b->stride) + 7) / 8 * 8;
    size_t top = (size_t)y * b->stride * f.wide * c;
    NAME(depthwise)(a->t + top, w->taps, a->line, c, f.wide, row, b->kernel, b->stride, b->dilation, 0);
    if (!b->depthwise_log_var) return;
    NAME(depthwise)(a->squared + top, w->taps_var, a->factor, c, f.wide, row, b->kernel, b->stride, b->dilation, 0);
    NAME(draw)(s->noise, b->key, (uint32_t)(2 * (n * high + y)), a->line, a->factor, row * c);
}

/* z of one image, and its sums. */
static void NAME(convolution)(const State *s, const Work *w, Frame f, Scratch *a, const real *x, int n, double *sums) {
    const Block *b = w->b;
    int c = s->channels, high = out_size(b->height, b->stride), wide = out_size(b->width, b->stride);
    int row = b->kind == FULL ? (wide + 3) / 4 * 4 : (wide + 7) / 8 * 8;
    for (int y = 0; y < high; y++) {
        real *z = (real *)b->z + ((size_t)n * high + y) * wide * c, *made = row == wide ? z : a->made;
        if (b->kind == POINTWISE) NAME(gather_pixels)(b, x, y, a->line);
        else if (b->kind == SEPARABLE) NAME(activations)(s, w, f, a, n, y);
        if (b->kind == FULL) NAME(full_product)(a->t + (size_t)y * f.wide * c, w->matrix, made, c, f.wide, row);
        else NAME(product)(a->line, w->matrix, made, b->inputs, c, row);
        if (b->pointwise_log_var) {
            NAME(squares)(a->line, a->square, (size_t)row * b->inputs);
            NAME(product)(a->square, w->matrix_var, a->spread, b->inputs, c, row);
            NAME(draw)(s->noise, b->key, (uint32_t)(2 * (n * high + y) + 1), made, a->spread, row * c);
        }
        if (made != z) memcpy(z, made, sizeof(real) * wide * c);
        NAME(add_moments)(z, z, c, wide, sums, sums + c);
    }
}

/* dz for one row: gate * g * slope_g + slope_z * z + level, g only where the output was not rectified away. */
static void NAME(output_gradient)(const Work *w, real gate, const real *g,
                                  const real *z, int c, int pixels, real *dz) {
    int rectified = w->last && w->b->relu_last;
    for (int ch = 0; ch < c; ch += LANES) {
        vec slope_g = get(w->slope_g + ch), slope_z = get(w->slope_z + ch), level = get(w->level_z + ch);
        vec scale = get(w->scale + ch), shift = get(w->shift + ch);
        for (int at = ch; at < pixels * c; at += c) {
            vec v = get(z + at), e = all(gate) * get(g + at);
            if (rectified) e = where_positive(v * scale + shift, e);
            put(dz + at, slope_g * e + slope_z * v + level);
        }
    }
}

/* From dz of one row: the gradient of the pointwise input into dline, and of its variance into factor. */
static void NAME(pointwise_backward)(const State *s, const Work *w, Scratch *a, uint32_t place, int row, int wide, real *grads) {
    const Block *b = w->b;
    int c = s->channels, inputs = b->inputs;
    size_t taps = NAME(taps_size)(b, c), count = (size_t)row * inputs;
    NAME(product)(a->dz, b->pointwise, a->dline, c, inputs, row);
    if (grads) NAME(outer)(a->line, a->dz, grads + taps, inputs, c, wide, 1, 0);
    if (!b->pointwise_log_var) return;
    NAME(squares)(a->line, a->square, count);
    NAME(product)(a->square, w->matrix_var, a->spread, inputs, c, row);
    NAME(draw)(s->noise, b->key, place, a->back, a->spread, row * c);
    for (int i = 0; i < row * c; i++) a->spread[i] *= a->dz[i];
    if (grads) NAME(outer)(a->square, a->spread, grads + 2 * taps + NAME(matrix_size)(b, c), inputs, c, wide, 1, 0);
    NAME(product)(a->spread, w->transposed_var, a->more, c, inputs, row);
    for (size_t i = 0; i < count; i++) {
        a->dline[i] += 2 * a->line[i] * a->more[i];
        a->factor[i] *= a->dline[i];
    }
}

/* One row of dx: of a raw input, added; of a normalised one, written, with sums of dx and dx * x. */
static void NAME(input_gradient)(const Work *w, Frame f, Scratch *a, int y, const real *x, real *dx,
                                 double *sums, int c) {
    const Block *b = w->b;
    size_t inner = ((size_t)(y + f.border) * f.wide + f.border) * c;
    int row = (b->width + 7) / 8 * 8, uncertain = b->depthwise_log_var != 0;
    size_t outer = (size_t)y * f.wide * c;
    const real *from = a->u + inner, *from_var = a->v + inner, *seen = a->t + inner;
    if (b->kind == FULL) {
        NAME(full_product)(a->u + outer, w->flipped, a->back, c, f.wide, (b->width + 3) / 4 * 4);
        from = a->back;
    } else if (b->stride == 1) {
        NAME(depthwise)(a->u + outer, w->taps, a->back, c, f.wide, row, b->kernel, 1, b->dilation, 1);
        if (uncertain) NAME(depthwise)(a->v + outer, w->taps_var, a->more, c, f.wide, row, b->kernel, 1, b->dilation, 1);
        from = a->back, from_var = a->more;
    }
    for (int i = 0; i < b->width * c; i += LANES) {
        vec d = get(from + i), input = get(seen + i);
        if (uncertain) d += all(2) * input * get(from_var + i);
        if (b->relu) d = where_positive(input, d);
        put(dx + i, sums ? d : (vec)(d + get(dx + i)));
    }
    if (sums) NAME(add_moments)(dx, x, c, b->width, sums, sums + c);
}

/* Gradients of a full convolution from g; all of dz is made before any of it is read. */
static void NAME(full_backward)(const Work *w, Frame f, Scratch *a, int c, int n, const real *x, const real *g, real gate,
                                 real *grads, real *dx, double *sums) {
    const Block *b = w->b;
    size_t line = (size_t)b->width * c, inner = ((size_t)f.border * f.wide + f.border) * c;
    const real *z = (const real *)b->z + (size_t)n * b->height * line;
    for (int y = 0; y < b->height; y++)
        NAME(output_gradient)(w, gate, g + y * line, z + y * line, c, b->width, a->u + inner + (size_t)y * f.wide * c);
    for (int tap = 0; grads && tap < places(b); tap++) {
        const real *seen = a->t + ((size_t)(tap / b->kernel) * f.wide + tap % b->kernel) * c;
        NAME(outer)(seen, a->u + inner, grads + (size_t)tap * c * c, c, c, b->width, b->height, f.wide);
    }
    for (int y = 0; y < b->height; y++) NAME(input_gradient)(w, f, a, y, x + y * line, dx + y * line, sums, c);
}

/* Gradients of a block from g, that of its normalised (and rectified) output; its input is prepared. */
static void NAME(convolution_backward)(const State *s, const Work *w, Frame f, Scratch *a, int n,
                                     const real *x, const real *g, real gate, real *grads, real *dx,
                                     double *sums) {
    const Block *b = w->b;
    int c = s->channels, k = b->kernel, uncertain = b->depthwise_log_var != 0;
    int high = out_size(b->height, b->stride), wide = out_size(b->width, b->stride), row = (wide + 7) / 8 * 8;
    size_t of_variance = NAME(taps_size)(b, c) + NAME(matrix_size)(b, c);
    int scattered = b->stride > 1 && b->kind == SEPARABLE; /* elsewhere all of it is overwritten */
    if (scattered) memset(a->u, 0, sizeof(real) * f.size);
    if (scattered && uncertain) memset(a->v, 0, sizeof(real) * f.size);
    for (int y = 0; y < high; y++) {
        size_t top = (size_t)y * b->stride * f.wide * c, at = (size_t)y * wide * c;
        size_t into = ((size_t)(y + f.border) * f.wide + f.border) * c;
        if (b->kind == POINTWISE) NAME(gather_pixels)(b, x, y, a->line);
        else NAME(activations)(s, w, f, a, n, y);
        NAME(output_gradient)(w, gate, g + at, (const real *)b->z + (size_t)n * high * wide * c + at, c, wide, a->dz);
        NAME(pointwise_backward)(s, w, a, (uint32_t)(2 * (n * high + y) + 1), row, wide, grads);
        if (b->kind == POINTWISE) {
            NAME(scatter_pixels)(b, a->line, a->dline, y, dx);
            continue;
        }
        if (grads) NAME(taps)(a->t + top, a->dline, grads, c, f.wide, wide, k, b->stride, b->dilation);
        if (b->stride > 1) NAME(scatter)(b, f.wide, w->taps, a->dline, a->u + top, c);
        else memcpy(a->u + into, a->dline, sizeof(real) * wide * c);
        if (!uncertain) continue;
        if (grads) NAME(taps)(a->squared + top, a->factor, grads + of_variance, c, f.wide, wide, k, b->stride, b->dilation);
        if (b->stride > 1) NAME(scatter)(b, f.wide, w->taps_var, a->factor, a->v + top, c);
        else memcpy(a->v + into, a->factor, sizeof(real) * wide * c);
    }
    for (int y = 0; b->kind == SEPARABLE && y < b->height; y++)
        NAME(input_gradient)(w, f, a, y, x + (size_t)y * b->width * c, dx + (size_t)y * b->width * c, sums, c);
}
