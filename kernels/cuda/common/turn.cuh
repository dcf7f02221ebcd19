/* turn.cuh - rotation of pairs of channels by position (Su et al., arXiv:2104.09864). A row of the table
 * `cos_sin` has the angles of one position: the cosine and sine of pair 0, of pair 1 ... Pair i is
 * channels (i, i + rot_dim / 2), or (2i, 2i + 1) where the rotation is interleaved.
 *
 * Keys are stored turned to their positions. A method that wants them elsewhere turns them back by as many
 * positions as they are to move. Cosines and sines in the table are multiplied by `factor` (yarn's, else
 * 1), which turning back leaves out: either the angles are divided by it, or, which costs less and rounds
 * at another place, the result. */
#ifndef SAC_KERNELS_TURN_CUH
#define SAC_KERNELS_TURN_CUH

#include "mma.cuh"

namespace sac {

/* (x, y) turned by the angle of (cos, sin). */
__device__ __forceinline__ void turn(float cos, float sin, float &x, float &y) {
    float u = x, v = y;
    x = u * cos - v * sin;
    y = v * cos + u * sin;
}
/* The first and the second of a pair turned the other way; both. */
__device__ __forceinline__ float first_back(float cos, float sin, float x, float y) {
    return x * cos + y * sin;
}
__device__ __forceinline__ float second_back(float cos, float sin, float x, float y) {
    return y * cos - x * sin;
}
__device__ __forceinline__ void turn_back(float cos, float sin, float &x, float &y) {
    float u = x, v = y;
    x = first_back(cos, sin, u, v);
    y = second_back(cos, sin, u, v);
}

/* Channel c of a key in any type, turned back by `pos` positions; `at` is the key's channel 0. */
__device__ __forceinline__ float turned_back(sac_dtype t, const void *k, int64_t at, int c,
                                             const sac_rotation &r, int64_t pos) {
    float x = load_any(t, k, at + c);
    if (c >= r.rot_dim) return x;
    int half = r.rot_dim / 2, i = r.interleaved ? c / 2 : c % half;
    bool first = r.interleaved ? c % 2 == 0 : c < half;
    float y = load_any(t, k, at + (r.interleaved ? c ^ 1 : first ? c + half : c - half));
    float cos = r.cos_sin[pos * r.rot_dim + 2 * i] / r.factor;
    float sin = -r.cos_sin[pos * r.rot_dim + 2 * i + 1] / r.factor;
    return first ? x * cos - y * sin : x * cos + y * sin;
}

/* Eight pairs turned back, x and y 16 bytes each of halves; angles [16] of the pairs, f = 1 / factor. */
template <typename T>
__device__ __forceinline__ void turn_back_eight(uint4 &x, uint4 &y, const float *angles, float f) {
    T *u = (T *)&x, *v = (T *)&y;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float a = to_f32(u[i]), b = to_f32(v[i]);
        u[i] = from_f32<T>(first_back(angles[2 * i], angles[2 * i + 1], a, b) * f);
        v[i] = from_f32<T>(second_back(angles[2 * i], angles[2 * i + 1], a, b) * f);
    }
}

/* Two pairs turned back: x and y are two neighbouring halves each, `angles` theirs (cos, sin, cos, sin). */
template <typename T>
__device__ __forceinline__ void turn_back_two(uint32_t &x, uint32_t &y, const float4 &angles, float f) {
    float2 u = unpack_two<T>(x), v = unpack_two<T>(y);
    x = pack<T>(first_back(angles.x, angles.y, u.x, v.x) * f, first_back(angles.z, angles.w, u.y, v.y) * f);
    y = pack<T>(second_back(angles.x, angles.y, u.x, v.x) * f, second_back(angles.z, angles.w, u.y, v.y) * f);
}

} // namespace sac

#endif
