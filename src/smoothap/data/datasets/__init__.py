"""The sets: published photos and faces, the user's own, emoji and glyphs; and the lists and counts that they share."""

__all__ = ["counts", "emoji", "faces", "glyphs", "listing", "own", "published"]
