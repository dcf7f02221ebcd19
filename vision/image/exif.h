/* exif.h - how a picture's metadata says it must be turned. */
#ifndef SAC_VISION_EXIF_H
#define SAC_VISION_EXIF_H

#include "image.h"

/* Tag 0x0112 of a TIFF block (after "Exif\0\0", which may be present up to twice), or 0 when the block is
 * malformed or has none. Damaged metadata never makes a picture unreadable: viewers and Pillow show it as it
 * is stored. */
int sac_exif_orientation(const uint8_t *block, size_t n_bytes);

/* Digit after tiff:Orientation in an XMP packet, or 0. */
int sac_xmp_orientation(const uint8_t *packet, size_t n_bytes);

/* Turns the picture as ImageOps.exif_transpose does for orientations 2 to 8; other values leave it alone.
 * Needs memory for a second copy while it works. */
sac_status sac_image_orient(sac_image *image, int orientation, sac_error *err);

#endif
