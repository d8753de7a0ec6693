/* A state: its terms one after another, each on all threads. */

/* Images and rows for one thread, from `base` on; only counted while there is none. */
static size_t NAME(scratch)(const Chain *e, real *base, Scratch *a) {
    size_t image = 0, row = 8, c = e->s->channels;
    for (const Work *w = e->work; w < e->work + e->term->blocks; w++) {
        size_t size = rounded(frame_of(w->b, (int)c).size);
        size_t count = (size_t)(w->b->width + 2 + 7) / 8 * 8 * (w->b->inputs > (int)c ? (size_t)w->b->inputs : c);
        if (size > image) image = size;
        if (count > row) row = count; /* two pixels more, for the borders of pools */
    }
    real **parts[] = {&a->t, &a->squared, &a->u, &a->v, &a->line, &a->factor, &a->square,
                      &a->spread, &a->made, &a->dz, &a->dline, &a->back, &a->more};
    size_t variance = e->uncertain ? image : 0, gradient = e->backward ? image : 0, both = e->backward ? variance : 0;
    size_t sizes[] = {image, variance, gradient, both, row, row, row, row, row, row, row, row, row}, used = 0;
    for (int i = 0; i < 13; used += sizes[i++]) *parts[i] = base + used;
    a->size = image + variance + gradient + both;
    return rounded(used);
}

/* This thread's part of the scratch, with zeros in it: borders of images are not written to. */
static real *NAME(own)(const Chain *e, Scratch *a) {
    size_t size = NAME(scratch)(e, NULL, a);
    real *base = e->scratch + size * thread();
    memset(base, 0, sizeof(real) * size);
    NAME(scratch)(e, base, a);
    return base;
}

/* What block `level` of the chain reads, for one image. */
INLINE const real *NAME(input)(const Chain *e, const Work *w, int n) {
    size_t size = w->level ? (size_t)w->b->height * w->b->width * e->s->channels : (size_t)e->term->size;
    return (const real *)(w->level ? w->b[-1].z : e->term->x) + n * size;
}

static void NAME(block_forward)(const Chain *e, const Work *w, Frame f, Scratch *a, int n, int group) {
    const real *x = NAME(input)(e, w, n);
    double *sums = w->sums + group * 2 * e->s->channels;
    if (padded(w->b)) NAME(prepare)(w->b, f, x, w->level ? w - 1 : NULL, a, e->s->channels);
    if (w->b->pointwise) NAME(convolution)(e->s, w, f, a, x, n, sums);
    else NAME(pool)(e->s, w, a, x, n, sums);
}

static void NAME(block_backward)(const Chain *e, const Work *w, Frame f, Scratch *a, int n, int group) {
    int c = e->s->channels;
    size_t size = (size_t)e->s->height * e->s->width * c;
    const real *x = NAME(input)(e, w, n), *g = (w->last ? (const real *)e->s->g : w->between) + n * size;
    real gate = w->last ? e->gate[n] : 1, *grads = w->grads ? w->grads + group * NAME(grads_size)(w->b, c) : NULL;
    real *dx = w->level ? w[-1].between + n * size : (real *)e->term->dx + (size_t)n * e->term->size;
    double *sums = w->level ? w[-1].sums + group * 2 * c : NULL;
    if (padded(w->b)) NAME(prepare)(w->b, f, x, w->level ? w - 1 : NULL, a, c);
    if (w->b->kind == FULL) NAME(full_backward)(w, f, a, c, n, x, g, gate, grads, dx, sums);
    else if (w->b->pointwise) NAME(convolution_backward)(e->s, w, f, a, n, x, g, gate, grads, dx, sums);
    else NAME(pool_backward)(e->s, w, a, n, x, g, gate, dx);
}

/* What a tensor passes on as it is; the first term of a tensor clears its gradient. */
static void NAME(pass_back)(const Chain *e, int n) {
    size_t size = (size_t)e->term->size;
    const real *g = (const real *)e->s->g + n * size;
    real *dx = (real *)e->term->dx + n * size;
    vec gate = all(e->gate[n]);
    if (e->first) memset(dx, 0, sizeof(real) * size);
    for (size_t i = 0; !e->term->blocks && i < size; i += LANES) put(dx + i, get(dx + i) + gate * get(g + i));
}

static void NAME(chain_forward)(const Chain *e) {
#pragma omp parallel
    {
        Scratch a;
        real *base = NAME(own)(e, &a);
        for (Work *w = e->work; w < e->work + e->term->blocks; w++) {
            Frame f = frame_of(w->b, e->s->channels);
            if (w->level) memset(base, 0, a.size * sizeof(real));
#pragma omp for schedule(static)
            EACH_IMAGE(n, group) NAME(block_forward)(e, w, f, &a, n, group);
#pragma omp single
            NAME(settle)(e->s, w);
        }
#pragma omp for schedule(static)
        EACH_IMAGE(n, group) NAME(combine)(e, n);
    }
}

static void NAME(chain_backward)(const Chain *e) {
#pragma omp parallel
    {
        Scratch a;
        real *base = NAME(own)(e, &a);
#pragma omp for schedule(static)
        EACH_IMAGE(n, group) {
            NAME(gate_gradient)(e, n, group);
            NAME(pass_back)(e, n);
        }
        for (Work *w = e->work + e->term->blocks - 1; w >= e->work; w--) {
            Frame f = frame_of(w->b, e->s->channels);
#pragma omp single
            NAME(settle_backward)(e->s, w);
            if (!w->last) memset(base, 0, a.size * sizeof(real));
#pragma omp for schedule(static)
            EACH_IMAGE(n, group) NAME(block_backward)(e, w, f, &a, n, group);
        }
#pragma omp for schedule(static)
        for (int i = 0; i < e->term->blocks; i++)
            if (e->work[i].grads) NAME(gather)(&e->work[i], e->s->channels);
    }
}

/* Gives 1 where memory does not suffice. */
static int NAME(chain)(const State *s, int k, int backward) {
    const Term *term = s->term + k;
    Work work[term->blocks + 1];
    Scratch a;
    Chain it = {s, term, 0, backward, k == 0 || (backward && term[-1].x != term->x),
                (const real *)s->gate + (size_t)k * s->images,
                backward ? (real *)s->dgate + (size_t)k * s->images : NULL, work, NULL}, *e = &it;
    memset(work, 0, sizeof(work));
    for (int i = 0; i < term->blocks; i++) {
        work[i].b = &term->block[i], work[i].level = i, work[i].last = i + 1 == term->blocks;
        if (work[i].b->pointwise_log_var) e->uncertain = 1;
    }
    size_t room = rounded(NAME(room)(e, NULL)), own = NAME(scratch)(e, NULL, &a);
    real *arena = aligned_alloc(64, rounded(room + own * threads()) * sizeof(real));
    if (!arena) return 1;
    e->scratch = arena + room;
    NAME(room)(e, arena);
    for (int i = 0; i < term->blocks; i++) {
        NAME(lay_out)(&work[i], s->channels);
        if (backward) NAME(normalise)(&work[i], s->channels);
    }
    if (backward) NAME(chain_backward)(e);
    else NAME(chain_forward)(e);
    free(arena);
    return 0;
}

/* out = the sum of all terms; z, mean and spread of every block. */
int NAME(state_forward)(const State *s) {
    int failed = 0;
    for (int k = 0; k < s->terms && !failed; k++) failed = NAME(chain)(s, k, 0);
    return failed;
}

/* From g, the gradient of out: dx of every tensor, dgate, and those of the weights where they are wanted. */
int NAME(state_backward)(const State *s) {
    int failed = 0;
    for (int k = 0; k < s->terms && !failed; k++) failed = NAME(chain)(s, k, 1);
    return failed;
}

#undef vec
#undef bits
#undef get
#undef put
#undef all
#undef where_positive
#undef Work
#undef Scratch
#undef Chain
#undef EACH_IMAGE
#undef WINDOW
#undef SHARES
