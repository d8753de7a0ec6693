/* A term: its chain on all images, block by block, since statistics need the whole batch. */

typedef struct {
    const State *s;
    const Term *term;
    int uncertain, backward, first; /* whether it is the first of all terms, or of those of its tensor */
    const real *gate;               /* (images) */
    real *dgate;
    Work *work; /* one for each block */
    real *scratch; /* of all threads */
} NAME(Chain);
#define Chain NAME(Chain)

#define EACH_IMAGE(n, group) \
    for (int group = 0; group < GROUPS; group++) \
        for (int n = group * e->s->images / GROUPS; n < (group + 1) * e->s->images / GROUPS; n++)

INLINE real NAME(variance)(real log_var) { /* held where float can square and sum it, as in layers.py */
    return (real)exp(log_var < -30 ? -30 : log_var > 10 ? 10 : log_var);
}

/* The gradient of a log-variance, from that of the variance: none where it is held. */
INLINE real NAME(log_gradient)(real log_var, real variance, real gradient) {
    return log_var < -30 || log_var > 10 ? 0 : gradient * variance;
}

/* Room for what a call makes of its blocks; only counted while there is no arena. */
static size_t NAME(room)(const Chain *e, real *arena) {
    size_t used = 0, c = e->s->channels;
    for (Work *w = e->work; w < e->work + e->term->blocks; w++) {
        const Block *b = w->b;
        int uncertain = b->pointwise_log_var != 0, grads = e->backward && b->dpointwise;
        size_t taps = NAME(taps_size)(b, (int)c), matrix = NAME(matrix_size)(b, (int)c);
        size_t image = (size_t)out_size(b->height, b->stride) * out_size(b->width, b->stride) * c;
        real **parts[] = {&w->taps, &w->matrix, &w->flipped, &w->taps_var, &w->matrix_var, &w->transposed_var,
                          &w->scale, &w->shift, &w->slope_g, &w->slope_z, &w->level_z, (real **)&w->sums, &w->grads, &w->between};
        size_t sizes[] = {taps, matrix, e->backward && b->kind == FULL ? matrix : 0, uncertain * taps, uncertain * matrix, uncertain * matrix,
                          c, c, c, c, c, GROUPS * 2 * c * sizeof(double) / sizeof(real),
                          grads ? GROUPS * NAME(grads_size)(b, (int)c) : 0,
                          e->backward && !w->last ? e->s->images * image : 0};
        for (int i = 0; i < 14; used += rounded(sizes[i++])) *parts[i] = sizes[i] ? arena + used : NULL;
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
    int square = b->kernel * b->kernel, each = places(b);
    memset(w->sums, 0, sizeof(double) * GROUPS * 2 * c);
    if (w->grads) memset(w->grads, 0, sizeof(real) * GROUPS * NAME(grads_size)(b, c));
    for (int i = 0; depthwise && i < c; i++)
        for (int t = 0; t < square; t++) {
            w->taps[t * c + i] = depthwise[i * square + t];
            if (depthwise_log) w->taps_var[t * c + i] = NAME(variance)(depthwise_log[i * square + t]);
        }
    for (int o = 0; pointwise && o < c; o++)
        for (int i = 0; i < b->inputs; i++) {
            for (int t = 0; t < each; t++) {
                real weight = pointwise[(o * b->inputs + i) * each + t];
                w->matrix[((size_t)t * b->inputs + i) * c + o] = weight;
                if (w->flipped) w->flipped[((size_t)(each - 1 - t) * c + o) * b->inputs + i] = weight;
            }
            if (!pointwise_log) continue;
            w->transposed_var[o * b->inputs + i] = NAME(variance)(pointwise_log[o * b->inputs + i]);
            w->matrix_var[i * c + o] = w->transposed_var[o * b->inputs + i];
        }
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
        ((real *)b->mean)[i] = b->bare ? 0 : (real)mean;
        ((real *)b->spread)[i] = b->bare ? 1 : (real)(1 / sqrt((variance > 0 ? variance : 0) + b->eps));
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
        w->slope_z[i] = b->bare ? 0 : (real)slope_z;
        w->level_z[i] = b->bare ? 0 : (real)(-slope * sum / count - slope_z * mean);
        if (b->dgamma) ((real *)b->dgamma)[i] = (real)along, ((real *)b->dbeta)[i] = (real)sum;
    }
}

/* The last block of a chain; none where a term is a tensor. */
INLINE const Work *NAME(end_of)(const Chain *e) { return e->term->blocks ? e->work + e->term->blocks - 1 : NULL; }

/* out (+)= gate * (rectified) (z * scale + shift), for one image; a tensor is taken as it is. */
static void NAME(combine)(const Chain *e, int n) {
    const Work *w = NAME(end_of)(e);
    int c = e->s->channels, rectified = w && w->b->relu_last, first = e->first;
    size_t size = (size_t)e->s->height * e->s->width * c;
    const real *z = (const real *)(w ? w->b->z : e->term->x) + n * size;
    real *out = (real *)e->s->out + n * size;
    vec gate = all(e->gate[n]);
    for (int ch = 0; ch < c; ch += LANES) {
        vec scale = w ? get(w->scale + ch) : all(1), shift = w ? get(w->shift + ch) : all(0);
        for (size_t at = ch; at < size; at += c) {
            vec v = get(z + at) * scale + shift;
            if (rectified) v = where_positive(v, v);
            put(out + at, first ? gate * v : get(out + at) + gate * v);
        }
    }
}

/* The gradient of the gate for one image, and the sums that the last normalisation's gradient needs. */
static void NAME(gate_gradient)(const Chain *e, int n, int group) {
    const Work *w = NAME(end_of)(e);
    int c = e->s->channels, rectified = w && w->b->relu_last;
    int pixels = e->s->height * e->s->width;
    size_t size = (size_t)pixels * c;
    const real *z = (const real *)(w ? w->b->z : e->term->x) + n * size, *g = (const real *)e->s->g + n * size;
    double total = 0, gate = e->gate[n];
    for (int ch = 0; ch < c; ch += LANES) {
        vec scale = w ? get(w->scale + ch) : all(1), shift = w ? get(w->shift + ch) : all(0), first, second;
        if (rectified) NAME(moments)(g + ch, z + ch, c, pixels, 1, scale, shift, &first, &second);
        else NAME(moments)(g + ch, z + ch, c, pixels, 0, scale, shift, &first, &second);
        for (int i = 0; i < LANES; i++) {
            total += (double)scale[i] * second[i] + (double)shift[i] * first[i];
            if (w) w->sums[group * 2 * c + ch + i] += gate * first[i];
            if (w) w->sums[group * 2 * c + c + ch + i] += gate * second[i];
        }
    }
    e->dgate[n] = (real)total;
}

/* Gradients of the weights, over groups in order, in torch's layout. */
static void NAME(gather)(const Work *w, int c) {
    const Block *b = w->b;
    int square = b->kind == SEPARABLE ? b->kernel * b->kernel : 0, inputs = b->inputs;
    size_t size = NAME(grads_size)(b, c), taps = NAME(taps_size)(b, c);
    for (int group = 1; group < GROUPS; group++)
        for (size_t i = 0; i < size; i++) w->grads[i] += w->grads[group * size + i];
    const real *grads = w->grads;
    const real *depthwise_log = b->depthwise_log_var, *pointwise_log = b->pointwise_log_var;
    real *depthwise[2] = {b->ddepthwise, b->ddepthwise_log_var}, *pointwise[2] = {b->dpointwise, b->dpointwise_log_var};
    for (int each = 0, taken = places(b); each < 2 && pointwise[each]; each++, grads += size / 2) {
        for (int i = 0; i < c; i++)
            for (int t = 0; t < square; t++) {
                int to = i * square + t, at = t * c + i;
                depthwise[each][to] = each ? NAME(log_gradient)(depthwise_log[to], w->taps_var[at], grads[at]) : grads[at];
            }
        for (int o = 0; o < c; o++)
            for (int i = 0; i < inputs * taken; i++) { /* inputs, and places of each */
                size_t to = (size_t)o * inputs * taken + i, at = (size_t)(i % taken * inputs + i / taken) * c + o;
                real gradient = grads[taps + at];
                pointwise[each][to] = each ? NAME(log_gradient)(pointwise_log[to], w->matrix_var[at], gradient) : gradient;
            }
    }
}
