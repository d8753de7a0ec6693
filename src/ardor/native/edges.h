/* An edge: the terms of one tensor on all images, level by level, since statistics need the whole batch. */

typedef struct {
    const State *s;
    const Term *term;
    int terms, blocks, depth, uncertain, backward;
    const real *gate; /* (terms, images) */
    real *dgate;
    Work *work;
} NAME(Edge);
#define Edge NAME(Edge)

#define EACH_IMAGE(n, group) \
    for (int group = 0; group < GROUPS; group++) \
        for (int n = group * e->s->images / GROUPS; n < (group + 1) * e->s->images / GROUPS; n++)
#define EACH_BLOCK(w, at) \
    for (Work *w = e->work; w < e->work + e->blocks; w++) \
        if (at)

INLINE real NAME(variance)(real log_var) { /* held where float can square and sum it, as in layers.py */
    return (real)exp(log_var < -30 ? -30 : log_var > 10 ? 10 : log_var);
}

/* Room for what a call makes of its blocks; only counted while there is no arena. */
static size_t NAME(room)(const Edge *e, real *arena) {
    size_t used = 0, c = e->s->channels;
    EACH_BLOCK(w, 1) {
        const Block *b = w->b;
        int separable = b->kind == SEPARABLE, uncertain = b->depthwise_log_var != 0, grads = e->backward && b->ddepthwise;
        size_t taps = NAME(taps_size)(b, (int)c), square = c * c;
        size_t image = (size_t)out_size(b->height, b->stride) * out_size(b->width, b->stride) * c;
        real **parts[] = {&w->taps, &w->matrix, &w->taps_var, &w->matrix_var, &w->transposed_var, &w->scale, &w->shift,
                          &w->slope_g, &w->slope_z, &w->level_z, (real **)&w->sums, &w->grads, &w->between};
        size_t sizes[] = {separable * taps, separable * square, uncertain * taps, uncertain * square, uncertain * square,
                          c, c, c, c, c, GROUPS * 2 * c * sizeof(double) / sizeof(real),
                          grads ? GROUPS * NAME(grads_size)(b, (int)c) : 0,
                          e->backward && !w->last ? e->s->images * image : 0};
        for (int i = 0; i < 13; used += rounded(sizes[i++])) *parts[i] = sizes[i] ? arena + used : NULL;
    }
    return used;
}

/* v = z * scale + shift is the normalised output. */
static void NAME(normalise)(const Work *w, int c) {
    const real *mean = w->b->mean, *spread = w->b->spread, *gamma = w->b->gamma, *beta = w->b->beta;
    for (int i = 0; i < c; i++) {
        w->scale[i] = spread[i] * (gamma ? gamma[i] : 1);
        w->shift[i] = (beta ? beta[i] : 0) - mean[i] * w->scale[i];
    }
}

/* Weights as rows want them. */
static void NAME(lay_out)(const Work *w, int c) {
    const Block *b = w->b;
    const real *depthwise = b->depthwise, *pointwise = b->pointwise;
    const real *depthwise_log = b->depthwise_log_var, *pointwise_log = b->pointwise_log_var;
    int square = b->kernel * b->kernel;
    memset(w->sums, 0, sizeof(double) * GROUPS * 2 * c);
    if (w->grads) memset(w->grads, 0, sizeof(real) * GROUPS * NAME(grads_size)(b, c));
    for (int i = 0; b->kind == SEPARABLE && i < c; i++) {
        for (int t = 0; t < square; t++) w->taps[t * c + i] = depthwise[i * square + t];
        for (int o = 0; o < c; o++) w->matrix[i * c + o] = pointwise[o * c + i];
        if (!depthwise_log) continue;
        for (int t = 0; t < square; t++) w->taps_var[t * c + i] = NAME(variance)(depthwise_log[i * square + t]);
        for (int o = 0; o < c; o++) w->transposed_var[i * c + o] = NAME(variance)(pointwise_log[i * c + o]);
    }
    for (int i = 0; depthwise_log && i < c; i++)
        for (int o = 0; o < c; o++) w->matrix_var[i * c + o] = w->transposed_var[o * c + i];
}

/* The two sums of one channel, over groups in order. */
INLINE void NAME(total)(const Work *w, int c, int i, double *first, double *second) {
    *first = *second = 0;
    for (int group = 0; group < GROUPS; group++) {
        *first += w->sums[group * 2 * c + i];
        *second += w->sums[group * 2 * c + c + i];
    }
}

/* Statistics of a block's output, from the sums of z and z * z. */
static void NAME(settle)(const State *s, const Work *w) {
    const Block *b = w->b;
    double count = (double)s->images * out_size(b->height, b->stride) * out_size(b->width, b->stride), sum, square;
    for (int i = 0; i < s->channels; i++) {
        NAME(total)(w, s->channels, i, &sum, &square);
        double mean = sum / count, variance = square / count - mean * mean;
        ((real *)b->mean)[i] = (real)mean;
        ((real *)b->spread)[i] = (real)(1 / sqrt((variance > 0 ? variance : 0) + b->eps));
    }
    NAME(normalise)(w, s->channels);
}

/* How the gradient of z follows from that of the normalised output, g, from the sums of g and g * z. */
static void NAME(settle_backward)(const State *s, const Work *w) {
    const Block *b = w->b;
    double count = (double)s->images * out_size(b->height, b->stride) * out_size(b->width, b->stride), sum, product;
    for (int i = 0; i < s->channels; i++) {
        NAME(total)(w, s->channels, i, &sum, &product);
        double mean = ((real *)b->mean)[i], spread = ((real *)b->spread)[i], along = spread * (product - mean * sum);
        double slope = spread * (b->gamma ? ((const real *)b->gamma)[i] : 1), slope_z = -slope * spread * along / count;
        w->slope_g[i] = (real)slope;
        w->slope_z[i] = (real)slope_z;
        w->level_z[i] = (real)(-slope * sum / count - slope_z * mean);
        if (b->dgamma) ((real *)b->dgamma)[i] = (real)along, ((real *)b->dbeta)[i] = (real)sum;
    }
}

/* out (+)= gate * (rectified) (z * scale + shift), for one image; a tensor is taken as it is. */
static void NAME(combine)(const Edge *e, const Term *term, const Work *w, int n, int first) {
    int c = e->s->channels, rectified = w && w->b->relu_last;
    size_t size = (size_t)e->s->height * e->s->width * c;
    const real *z = (const real *)(w ? w->b->z : term->x) + n * size;
    real *out = (real *)e->s->out + n * size;
    vec gate = all(e->gate[(term - e->term) * (size_t)e->s->images + n]);
    for (int ch = 0; ch < c; ch += LANES) {
        vec scale = w ? get(w->scale + ch) : all(1), shift = w ? get(w->shift + ch) : all(0);
        for (size_t at = ch; at < size; at += c) {
            vec v = get(z + at) * scale + shift;
            if (rectified) v = where_positive(v, v);
            put(out + at, first ? gate * v : get(out + at) + gate * v);
        }
    }
}

/* The gradient of a term's gate for one image, and the sums that its normalisation's gradient needs. */
static void NAME(gate_gradient)(const Edge *e, const Term *term, const Work *w, int n, int group) {
    int c = e->s->channels, rectified = w && w->b->relu_last;
    size_t size = (size_t)e->s->height * e->s->width * c, at_gate = (term - e->term) * (size_t)e->s->images + n;
    const real *z = (const real *)(w ? w->b->z : term->x) + n * size, *g = (const real *)e->s->g + n * size;
    double total = 0, gate = e->gate[at_gate];
    for (int ch = 0; ch < c; ch += LANES) {
        vec scale = w ? get(w->scale + ch) : all(1), shift = w ? get(w->shift + ch) : all(0);
        vec first = all(0), second = all(0);
        for (size_t at = ch; at < size; at += c) {
            vec v = get(z + at), d = get(g + at);
            if (rectified) d = where_positive(v * scale + shift, d);
            first += d;
            second += d * v;
        }
        for (int i = 0; i < LANES; i++) {
            total += (double)scale[i] * second[i] + (double)shift[i] * first[i];
            if (w) w->sums[group * 2 * c + ch + i] += gate * first[i];
            if (w) w->sums[group * 2 * c + c + ch + i] += gate * second[i];
        }
    }
    e->dgate[at_gate] = (real)total;
}

/* Gradients of the weights, over groups in order, in torch's layout; d log_var = variance * d variance. */
static void NAME(gather)(const Work *w, int c) {
    const Block *b = w->b;
    int square = b->kernel * b->kernel, uncertain = b->depthwise_log_var != 0;
    size_t size = NAME(grads_size)(b, c), taps = NAME(taps_size)(b, c);
    for (int group = 1; group < GROUPS; group++)
        for (size_t i = 0; i < size; i++) w->grads[i] += w->grads[group * size + i];
    const real *grads = w->grads;
    real *depthwise[2] = {b->ddepthwise, b->ddepthwise_log_var}, *pointwise[2] = {b->dpointwise, b->dpointwise_log_var};
    for (int each = 0; each <= uncertain; each++, grads += taps + (size_t)c * c)
        for (int i = 0; i < c; i++) {
            for (int t = 0; t < square; t++)
                depthwise[each][i * square + t] = grads[t * c + i] * (each ? w->taps_var[t * c + i] : 1);
            for (int o = 0; o < c; o++)
                pointwise[each][o * c + i] = grads[taps + i * c + o] * (each ? w->matrix_var[i * c + o] : 1);
        }
}
