/* A state: its edges one after another, each on all threads. */

/* Images and rows for one thread; borders are zero. */
static real *NAME(scratch)(const Edge *e, Scratch *a) {
    size_t image = 0, row = 8, c = e->s->channels;
    for (int level = 0; level < e->depth; level++) {
        size_t size = rounded(frame_of(e->term, e->terms, level, (int)c).size);
        if (size > image) image = size;
    }
    EACH_BLOCK(w, 1) if ((size_t)w->b->width > row) row = w->b->width;
    row = (row + 2 + 7) / 8 * 8 * c; /* two pixels more, for the borders of pools */
    real **parts[] = {&a->t, &a->squared, &a->u, &a->v, &a->line, &a->factor, &a->square,
                      &a->spread, &a->made, &a->dz, &a->dline, &a->back, &a->more};
    size_t variance = e->uncertain ? image : 0, gradient = e->backward ? image : 0, both = e->backward ? variance : 0;
    size_t sizes[] = {image, variance, gradient, both, row, row, row, row, row, row, row, row, row}, used = 0;
    for (int i = 0; i < 13; i++) used += sizes[i];
    real *base = aligned_alloc(64, rounded(used) * sizeof(real));
    memset(base, 0, used * sizeof(real));
    used = 0;
    for (int i = 0; i < 13; used += sizes[i++]) *parts[i] = base + used;
    a->size = image + variance + gradient + both;
    return base;
}

/* One level on one image; an input is prepared once for all that read it alike. */
static void NAME(level_forward)(const Edge *e, Frame f, Scratch *a, int level, int n, int group) {
    int c = e->s->channels, prepared = -1;
    EACH_BLOCK(w, w->level == level) {
        const Block *b = w->b;
        const real *x = (const real *)(level ? b[-1].z : e->term[w->term].x) + (size_t)n * b->height * b->width * c;
        double *sums = w->sums + group * 2 * c;
        if (b->kind != SEPARABLE) {
            NAME(pool)(e->s, w, a, x, n, sums);
            continue;
        }
        if (level || prepared != b->relu) NAME(prepare)(b, f, x, level ? w - 1 : NULL, a, c);
        prepared = b->relu;
        NAME(separable)(e->s, w, f, a, n, sums);
    }
}

static void NAME(level_backward)(const Edge *e, Frame f, Scratch *a, int level, int n, int group) {
    const State *s = e->s;
    int c = s->channels, prepared = -1;
    size_t size = (size_t)s->height * s->width * c;
    EACH_BLOCK(w, w->level == level) {
        const Block *b = w->b;
        const Term *term = &e->term[w->term];
        real gate = w->last ? e->gate[(size_t)w->term * s->images + n] : 1;
        const real *x = (const real *)(level ? b[-1].z : term->x) + (size_t)n * b->height * b->width * c;
        const real *g = (w->last ? (const real *)s->g : w->between) + n * size;
        real *dx = level ? w[-1].between + n * size : (real *)term->dx + (size_t)n * term->size;
        if (b->kind != SEPARABLE) {
            NAME(pool_backward)(s, w, a, n, x, g, gate, dx);
            continue;
        }
        if (level || prepared != b->relu) NAME(prepare)(b, f, x, level ? w - 1 : NULL, a, c);
        prepared = b->relu;
        NAME(separable_backward)(s, w, f, a, n, x, g, gate, w->grads ? w->grads + group * NAME(grads_size)(b, c) : NULL,
                                 dx, level ? w[-1].sums + group * 2 * c : NULL);
    }
}

/* What a tensor passes on as it is. */
static void NAME(pass_back)(const Edge *e, int n) {
    size_t size = (size_t)e->s->height * e->s->width * e->s->channels;
    const real *g = (const real *)e->s->g + n * size;
    for (int k = 0; k < e->terms; k++) {
        real *dx = (real *)e->term[k].dx + n * (size_t)e->term[k].size;
        if (k == 0) memset(dx, 0, sizeof(real) * e->term[k].size);
        vec gate = all(e->gate[(size_t)k * e->s->images + n]);
        for (size_t i = 0; !e->term[k].blocks && i < size; i += LANES) put(dx + i, get(dx + i) + gate * get(g + i));
    }
}

static const Work *NAME(end_of)(const Edge *e, int term) {
    EACH_BLOCK(w, w->last && w->term == term) return w;
    return NULL;
}

static void NAME(edge_forward)(const Edge *e, int first) {
#pragma omp parallel
    {
        Scratch a;
        real *base = NAME(scratch)(e, &a);
        for (int level = 0; level < e->depth; level++) {
            Frame f = frame_of(e->term, e->terms, level, e->s->channels);
            memset(base, 0, a.size * sizeof(real));
#pragma omp for schedule(static)
            EACH_IMAGE(n, group) NAME(level_forward)(e, f, &a, level, n, group);
#pragma omp single
            EACH_BLOCK(w, w->level == level) NAME(settle)(e->s, w);
        }
#pragma omp for schedule(static)
        EACH_IMAGE(n, group)
            for (int k = 0; k < e->terms; k++) NAME(combine)(e, &e->term[k], NAME(end_of)(e, k), n, first && !k);
        free(base);
    }
}

static void NAME(edge_backward)(const Edge *e) {
#pragma omp parallel
    {
        Scratch a;
        real *base = NAME(scratch)(e, &a);
#pragma omp for schedule(static)
        EACH_IMAGE(n, group) {
            for (int k = 0; k < e->terms; k++) NAME(gate_gradient)(e, &e->term[k], NAME(end_of)(e, k), n, group);
            NAME(pass_back)(e, n);
        }
#pragma omp single
        EACH_BLOCK(w, w->last) NAME(settle_backward)(e->s, w);
        for (int level = e->depth - 1; level >= 0; level--) {
            Frame f = frame_of(e->term, e->terms, level, e->s->channels);
            memset(base, 0, a.size * sizeof(real));
#pragma omp for schedule(static)
            EACH_IMAGE(n, group) NAME(level_backward)(e, f, &a, level, n, group);
#pragma omp single
            EACH_BLOCK(w, w->level == level - 1 && !w->last) NAME(settle_backward)(e->s, w);
        }
#pragma omp for schedule(static)
        for (int i = 0; i < e->blocks; i++)
            if (e->work[i].grads) NAME(gather)(&e->work[i], e->s->channels);
        free(base);
    }
}

/* The terms from `begin` that read the same tensor, run one way or the other; gives how many they are. */
static int NAME(edge)(const State *s, int begin, int backward) {
    const Term *term = s->term + begin;
    Edge it = {s, term, 0, 0, 0, 0, backward, NULL, NULL, NULL}, *e = &it;
    e->gate = (const real *)s->gate + (size_t)begin * s->images;
    e->dgate = backward ? (real *)s->dgate + (size_t)begin * s->images : NULL;
    for (; begin + e->terms < s->terms && term[e->terms].x == term->x; e->terms++) e->blocks += term[e->terms].blocks;
    e->work = calloc(e->blocks + 1, sizeof(Work));
    Work *w = e->work;
    for (int k = 0; k < e->terms; k++)
        for (int i = 0; i < term[k].blocks; i++, w++) {
            w->b = &term[k].block[i], w->term = k, w->level = i, w->last = i + 1 == term[k].blocks;
            if (i >= e->depth) e->depth = i + 1;
            if (w->b->depthwise_log_var) e->uncertain = 1;
        }
    real *arena = aligned_alloc(64, (NAME(room)(e, NULL) + 16) * sizeof(real));
    NAME(room)(e, arena);
    EACH_BLOCK(w, 1) {
        NAME(lay_out)(w, s->channels);
        if (backward) NAME(normalise)(w, s->channels);
    }
    if (backward) NAME(edge_backward)(e);
    else NAME(edge_forward)(e, begin == 0);
    free(arena);
    free(e->work);
    return e->terms;
}

/* out = the sum of all terms; z, mean and spread of every block. */
void NAME(state_forward)(const State *s) {
    for (int k = 0; k < s->terms;) k += NAME(edge)(s, k, 0);
}

/* From g, the gradient of out: dx of every tensor, dgate, and those of the weights where they are wanted. */
void NAME(state_backward)(const State *s) {
    for (int k = 0; k < s->terms;) k += NAME(edge)(s, k, 1);
}

#undef vec
#undef bits
#undef get
#undef put
#undef all
#undef where_positive
#undef Work
#undef Scratch
#undef Edge
#undef EACH_IMAGE
#undef EACH_BLOCK
#undef WINDOW
#undef SHARES
