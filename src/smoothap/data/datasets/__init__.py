"""The sets, one in a file, and what they share: files that a list names, crops of faces, published counts."""

__all__ = [
    *("cars", "counts", "cub", "emoji", "faces", "folder", "glyphs", "ijbc", "in_shop", "inaturalist", "listing"),
    *("sop", "table", "vehicle_id", "vggface2"),
]
