/* test_launch_plans.cu - what the driver is told before a kernel starts, where no card is needed to know
 * it: the table of cards, launch plans as the driver gets them, and how work is cut into blocks. */
extern "C" {
#include "cuda_limits.h"
#include "test.h"
}
#include "block_product.cuh"
#include "cluster.cuh"
#include "cublaslt.cuh"
#include "norm.cuh"
#include "rows.cuh"
#include "stream_tiles.cuh"
#include "waves.cuh"

using namespace sac;

static sac_device card(int compute) {
    sac_device d = {};
    d.kind = SAC_DEVICE_CUDA, d.compute = compute, d.has_clusters = compute >= 90, d.n_processors = 132;
    return d;
}

/* CUDA C++ Programming Guide 13.0, "Technical specifications per compute capability". */
static void knows_the_cards(void **) {
    static const struct {
        int compute, shared_kib;
    } guide[] = {{80, 163},  {86, 99},   {87, 163},  {89, 99},  {90, 227},
                 {100, 227}, {103, 227}, {110, 227}, {120, 99}, {121, 99}};
    for (const auto &g : guide) {
        const sac_device d = card(g.compute);
        assert_int_equal(block_shared_bytes(&d), g.shared_kib << 10);
        assert_int_equal(tuning_of(&d).has_wgmma, g.compute == 90);
        assert_int_equal(tuning_of(&d).hopper_queries > 0, g.compute == 90);
    }
    for (size_t i = 1; i < SAC_COUNT(card_tunings); i++)
        assert_true(card_tunings[i - 1].compute < card_tunings[i].compute);
}

/* A card newer than the build's code is one of the code's, with the memory that it says it has. */
static void knows_newer_cards(void **) {
    const sac_cuda_limits none = {};
    sac_device d = card(sac_cuda_counted_compute(120, 80, &none));
    assert_int_equal(block_shared_bytes(&d), 163 << 10);
    d.shared_bytes = 99 << 10;
    assert_int_equal(block_shared_bytes(&d), 99 << 10);
    assert_false(tuning_of(&d).has_wgmma);
    d.compute = 90; /* with less than the table says: a limit that a test has set */
    assert_int_equal(block_shared_bytes(&d), 99 << 10);
}

typedef struct told {
    int early, together, cluster; /* cluster 0: nothing was said of one */
} told;

static told tell(int compute, const launch_plan &p, cudaLaunchConfig_t *c, bool no_early = false) {
    sac_device d = card(compute);
    d.no_early = no_early;
    sac_stream s = {};
    cudaLaunchAttribute attributes[MOST_ATTRIBUTES] = {};
    told t = {};
    s.device = &d, s.native = (void *)0x10;
    *c = launch_config(&s, p, attributes);
    for (unsigned i = 0; i < c->numAttrs; i++) switch (attributes[i].id) {
        case cudaLaunchAttributeProgrammaticStreamSerialization:
            t.early = attributes[i].val.programmaticStreamSerializationAllowed;
            break;
        case cudaLaunchAttributeCooperative: t.together = attributes[i].val.cooperative; break;
        case cudaLaunchAttributeClusterDimension:
            t.cluster = (int)attributes[i].val.clusterDim.x;
            assert_int_equal(attributes[i].val.clusterDim.y, 1);
            assert_int_equal(attributes[i].val.clusterDim.z, 1);
            break;
        default: fail();
        }
    c->attrs = NULL;
    return t;
}

/* Whether the driver is told what is wanted; the first number that is not. */
static const char *difference(const launch_plan &plan, int compute, const told &want) {
    cudaLaunchConfig_t c;
    const told t = tell(compute, plan, &c);
    if (t.early != want.early) return "early";
    if (t.together != want.together) return "together";
    if (t.cluster != want.cluster) return "cluster";
    if (c.numAttrs != (unsigned)((want.early != 0) + (want.together != 0) + (want.cluster != 0)))
        return "attributes";
    if (c.gridDim.x != 8 || c.gridDim.y != 3) return "grid";
    if (c.blockDim.x != 256) return "block";
    if (c.dynamicSmemBytes != 1000) return "shared memory";
    return c.stream == (void *)0x10 ? NULL : "stream";
}

/* Wrong plans, each in one thing: the comparison must name it. */
static void catches_wrong_plans(void **) {
    launch_plan right = of_step({dim3(8, 3), 256, 1000, 2000});
    right.cluster = 4, right.together = true;
    const told want = {1, 1, 4};
    assert_null(difference(right, 90, want));
    struct fault {
        launch_plan plan;
        int compute;
        const char *what;
    } faults[] = {
        {right, 90, "early"}, {right, 90, "together"}, {right, 90, "cluster"},       {right, 80, "early"},
        {right, 90, "grid"},  {right, 90, "grid"},     {right, 90, "shared memory"}, {right, 90, "block"},
    };
    faults[0].plan.early = false;
    faults[1].plan.together = false;
    faults[2].plan.cluster = 8;
    faults[4].plan.grid.x = 7;
    faults[5].plan.grid = dim3(3, 8);
    faults[6].plan.shared_bytes = 0;
    faults[7].plan.block = dim3(128);
    for (const fault &f : faults) {
        const char *found = difference(f.plan, f.compute, want);
        assert_non_null(found);
        assert_string_equal(found, f.what);
    }
}

static void tells_the_driver(void **) {
    launch_plan all = of_step({dim3(8, 3), 256, 1000, 2000});
    all.cluster = 4, all.together = true;
    const struct {
        launch_plan plan;
        int compute;
        told want;
    } cases[] = {
        {{dim3(8, 3), 256}, 90, {0, 0, 0}},
        {early({dim3(8, 3), 256}), 90, {1, 0, 0}},
        {early({dim3(8, 3), 256}), 80, {0, 0, 0}},
        {of_step({dim3(8, 3), 256}), 100, {1, 0, 0}},
        {cluster_plan(8, 3, 512), 90, {1, 0, 8}},
        {cluster_plan(1, 3, 0), 90, {1, 0, 1}},
        {cluster_plan(8, 3, 512), 89, {0, 0, 0}},
        {all, 90, {1, 1, 4}},
        {all, 80, {0, 1, 0}},
    };
    for (const auto &x : cases) {
        cudaLaunchConfig_t c;
        const told t = tell(x.compute, x.plan, &c);
        assert_int_equal(t.early, x.want.early);
        assert_int_equal(t.together, x.want.together);
        assert_int_equal(t.cluster, x.want.cluster);
        assert_int_equal(c.numAttrs, (x.want.early != 0) + (x.want.together != 0) + (x.want.cluster != 0));
        assert_int_equal(c.gridDim.x, x.plan.grid.x);
        assert_int_equal(c.gridDim.y, 3);
        assert_int_equal(c.blockDim.x, x.plan.block.x);
        assert_int_equal(c.dynamicSmemBytes, x.plan.shared_bytes);
        assert_ptr_equal(c.stream, (void *)0x10);
    }
    cudaLaunchConfig_t c; /* early starts are left out, and nothing else */
    const told t = tell(90, all, &c, true);
    assert_true(t.early == 0 && t.together == 1 && t.cluster == 4);
    assert_int_equal(of_step({1, 32}).carveout, STEP_CARVEOUT);
    assert_int_equal(early({1, 32}).carveout, 0);
    assert_int_equal(cluster_plan(2, 1, 0).block.x, CLUSTER_THREADS);
}

static void cuts_rows_into_blocks(void **) {
    const sac_device d = card(90), before = card(80);
    sac_stream s = {};
    s.device = &d;
    assert_int_equal(cluster_for(&s, 8192, 8, CLUSTER_MAX), 1);
    assert_int_equal(cluster_for(&s, 8193, 8, CLUSTER_MAX), 2);
    assert_int_equal(cluster_for(&s, 1 << 20, 8, CLUSTER_MAX), CLUSTER_MAX);
    s.device = &before;
    assert_int_equal(cluster_for(&s, 1 << 20, 8, CLUSTER_MAX), 1);
    const rows::rows_grid few = rows::rows_plan(3, 7), many = rows::rows_plan(100000, 448);
    assert_int_equal(few.threads, 32);
    assert_int_equal(few.blocks.x, 1);
    assert_int_equal(few.blocks.y, 3);
    assert_int_equal(many.threads, 256);
    assert_int_equal(many.blocks.x, 2);
    assert_int_equal(many.blocks.y, 32768);
    assert_int_equal(rows::norm_threads(16).x, 32); /* eight such rows a block */
    assert_int_equal(rows::norm_threads(16).y, 8);
    assert_int_equal(rows::norm_threads(448).x, 128);
    assert_int_equal(rows::norm_threads(1 << 20).x, NORM_THREADS);
}

/* Products of Qwen2-7B on 132 processors: units of a block, of a tile, steps along k. */
static void cuts_products_into_tiles(void **) {
    using namespace sac::linear::stream_tiles;
    const int most = (227 << 10) - (1 << 10);
    const struct {
        int units, of_tile, n_steps;
        plan want;
    } cases[] = {
        {28, 16, 56, {16, 2, 1, 22528}},
        {287, 8, 56, {4, 3, 3, 101376}},
        {28, 16, 296, {16, 2, 1, 22528}},
        {1153, 16, 56, {2, 2, 5, 112640}},
    };
    for (const auto &x : cases) {
        const plan p = find_plan(x.units, x.of_tile, x.n_steps, most);
        assert_int_equal(p.share, x.want.share);
        assert_int_equal(p.tiles, x.want.tiles);
        assert_int_equal(p.passes, x.want.passes);
        assert_int_equal(p.bytes, x.want.bytes);
        assert_true(p.bytes <= most);
        assert_true(WARPS / p.share * p.passes * p.tiles * x.of_tile >= x.units);
    }
    assert_int_equal(find_plan(1 << 20, 16, 56, most).tiles, 0); /* the sums of so many do not fit */
}

/* Rings of a format's products of up to ROWS rows of x: as many as a block's shared memory takes. */
template <typename F, int ROWS, bool GATED> static void fits_rings(int kib, int warps) {
    typedef sac::blocks::shape<F, ROWS, GATED> S;
    const int n = sac::blocks::ring_warps(kib << 10, S::WARP_BYTES);
    assert_int_equal(n, warps);
    assert_true(n * S::WARP_BYTES + 1024 <= kib << 10);
}

/* Weights in blocks: warps of a product, and rows of w that fit in the L2 cache when they are unpacked. */
static void cuts_blocks(void **) {
    using namespace sac::blocks;
    typedef sac::weights::q4_k<sac::bf16> small;
    typedef sac::weights::q8_0<sac::bf16> large;
    fits_rings<small, 1, false>(227, 8);
    fits_rings<small, 1, true>(99, 8);
    fits_rings<small, 8, false>(227, 8);
    fits_rings<small, 16, false>(227, 8);
    fits_rings<small, 16, false>(99, 3);
    fits_rings<large, 1, false>(99, 8);
    fits_rings<large, 16, false>(227, 6);
    fits_rings<large, 16, true>(99, 2);
    assert_int_equal(panel_rows(128256, 4096, false), 11264);
    assert_int_equal(panel_rows(4096, 14336, false), 3072);
    assert_int_equal(panel_rows(128256, 4096, true), 6144); /* x beside it */
    assert_int_equal(panel_rows(4096, 14336, true), 1536);
    assert_int_equal(panel_rows(1000, 4096, false), 1000);
    assert_int_equal(panel_rows(5000, 1 << 20, false), PANEL_ROWS);
}

/* Sequences of 100 and 1000 tiles on 10 processors, a block's own cost 5: the largest share that one wave
 * allows, and more waves only where they are through earlier. */
static void shares_out_waves(void **) {
    auto blocks_for = [](int64_t share) { return ceil_div(100, share) + ceil_div(1000, share); };
    assert_int_equal(best_share(blocks_for, 1000, 1, 10, 0, 5), 112);
    assert_true(blocks_for(112) <= 10 && blocks_for(111) > 10);
    assert_int_equal(best_share(blocks_for, 1000, 3, 10, 0, 5),
                     112); /* the card is full: no second wave is tried */
    auto uneven = [](int64_t share) { return 7 * ceil_div(90, share); };
    assert_int_equal(best_share(uneven, 90, 1, 10, 0, 0), 90);
    assert_int_equal(best_share(uneven, 90, 3, 10, 0, 0),
                     23); /* 28 blocks, three waves of 23: 69 and not 90 */
    assert_int_equal(best_share(uneven, 90, 3, 10, 0, 100), 90); /* a block's own cost thrice would be more */
}

/* A library that is not there is a line that names it; the first of a list that is there is taken. */
static void finds_cublaslt(void **) {
    using namespace sac::linear;
    static const char *const none[] = {"libcublasLt.so.0", "libcublasLt.so.1", NULL},
                             *const second[] = {"libcublasLt.so.0", "libcublasLt.so.13", "libcublasLt.so.12",
                                                NULL},
                             *const other[] = {"libc.so.6", NULL}; /* it has no such functions */
    cublaslt c = {};
    sac_error err = {};
    assert_int_equal(cublaslt_load(&c, none, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "libcublasLt.so.0"));
    assert_null(c.lib);
    assert_int_equal(cublaslt_load(&c, other, &err), SAC_UNSUPPORTED);
    assert_null(c.lib);
    if (cublaslt_load(&c, second, &err) != SAC_OK) skip(); /* a machine that builds need not have it */
    assert_true(c.GetVersion() >= 120000);
    cublaslt_close(&c);
    assert_null(c.lib);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_the_cards),       cmocka_unit_test(tells_the_driver),
        cmocka_unit_test(cuts_rows_into_blocks), cmocka_unit_test(cuts_products_into_tiles),
        cmocka_unit_test(shares_out_waves),      cmocka_unit_test(catches_wrong_plans),
        cmocka_unit_test(finds_cublaslt),        cmocka_unit_test(knows_newer_cards),
        cmocka_unit_test(cuts_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
