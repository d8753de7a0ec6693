/* Pools of one image, forwards and backwards: 3x3, padded by one pixel. */

INLINE vec NAME(pooled)(vec a, vec b, int average) {
    if (average) return a + b;
    bits larger = (bits)(b > a);
    return (vec)((larger & (bits)b) | (~larger & (bits)a));
}

/* The part of a 3x3 window that lies inside the image, and what one pixel of it counts in the average. */
#define WINDOW(at, size, from, to) int from = (at) > 0 ? (at) - 1 : 0, to = (at) + 2 < (size) ? (at) + 2 : (size)
#define SHARES(rows, share) const real share[] = {0, (real)1 / (rows), (real)1 / (2 * (rows)), (real)1 / (3 * (rows))}

/* A pool of one image, columns first and then rows; the average leaves the padding out. */
static void NAME(pool)(const State *s, const Work *w, Scratch *a, const real *x, int n, double *sums) {
    const Block *b = w->b;
    int c = s->channels, high = out_size(b->height, b->stride), wide = out_size(b->width, b->stride);
    int average = b->kind == AVERAGE;
    for (int i = 0; i < c; i++) a->line[i] = a->line[(b->width + 1) * c + i] = average ? 0 : -(real)INFINITY;
    for (int y = 0; y < high; y++) {
        real *z = (real *)b->z + ((size_t)n * high + y) * wide * c;
        WINDOW(y * b->stride, b->height, top, bottom);
        SHARES(bottom - top, share);
        for (int i = 0; i < b->width * c; i += LANES) {
            vec v = get(x + (size_t)top * b->width * c + i);
            for (int row = top + 1; row < bottom; row++)
                v = NAME(pooled)(v, get(x + (size_t)row * b->width * c + i), average);
            put(a->line + c + i, v);
        }
        for (int p = 0; p < wide; p++) {
            WINDOW(p * b->stride, b->width, left, right);
            vec part = all(average ? share[right - left] : 1);
            const real *at = a->line + (size_t)p * b->stride * c;
            for (int ch = 0; ch < c; ch += LANES)
                put(z + p * c + ch, part * NAME(pooled)(NAME(pooled)(get(at + ch), get(at + c + ch), average),
                                                         get(at + 2 * c + ch), average));
        }
        if (!b->bare) NAME(add_moments)(z, z, c, wide, sums, sums + c);
    }
}

/* A row of an average passes back: spread over columns, and then over rows. */
static void NAME(average_backward)(const Block *b, Scratch *a, int y, int wide, int c, real *dx) {
    WINDOW(y * b->stride, b->height, top, bottom);
    SHARES(bottom - top, share);
    memset(a->line, 0, sizeof(real) * (b->width + 2) * c);
    for (int p = 0; p < wide; p++) {
        WINDOW(p * b->stride, b->width, left, right);
        real *to = a->line + (size_t)p * b->stride * c;
        for (int ch = 0; ch < c; ch += LANES) {
            vec d = all(share[right - left]) * get(a->dz + p * c + ch);
            for (int j = ch; j < ch + 3 * c; j += c) put(to + j, get(to + j) + d);
        }
    }
    for (int row = top; row < bottom; row++) {
        real *to = dx + (size_t)row * b->width * c;
        for (int i = 0; i < b->width * c; i += LANES) put(to + i, get(to + i) + get(a->line + c + i));
    }
}

/* The gradient of a maximum goes to the first of its window that has it. */
INLINE void NAME(to_first)(vec found, vec d, const real *x, real *dx, int rows, int columns, int stride, int c) {
    bits open = (bits)(found == found);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            size_t at = (size_t)i * stride + (size_t)j * c;
            bits same = (bits)(get(x + at) == found);
            put(dx + at, get(dx + at) + (vec)((bits)d & open & same));
            open &= ~same;
        }
}

static void NAME(maximum_backward)(const Block *b, Scratch *a, int y, int wide, int c, const real *x, const real *z, real *dx) {
    int stride = b->width * c;
    WINDOW(y * b->stride, b->height, top, bottom);
    for (int p = 0; p < wide; p++) {
        WINDOW(p * b->stride, b->width, left, right);
        for (int ch = 0; ch < c; ch += LANES) {
            size_t at = ((size_t)top * b->width + left) * c + ch;
            vec found = get(z + p * c + ch), d = get(a->dz + p * c + ch);
            if (bottom - top == 3 && right - left == 3) NAME(to_first)(found, d, x + at, dx + at, 3, 3, stride, c);
            else NAME(to_first)(found, d, x + at, dx + at, bottom - top, right - left, stride, c);
        }
    }
}

/* Adds to dx of one image what a pool passes back. */
static void NAME(pool_backward)(const State *s, const Work *w, Scratch *a, int n, const real *x, const real *g,
                                real gate, real *dx) {
    const Block *b = w->b;
    int c = s->channels, high = out_size(b->height, b->stride), wide = out_size(b->width, b->stride);
    for (int y = 0; y < high; y++) {
        const real *z = (const real *)b->z + ((size_t)n * high + y) * wide * c;
        NAME(output_gradient)(w, gate, g + (size_t)y * wide * c, z, c, wide, a->dz);
        if (b->kind == AVERAGE) NAME(average_backward)(b, a, y, wide, c, dx);
        else NAME(maximum_backward)(b, a, y, wide, c, x, z, dx);
    }
}
