"""The disk under the index: bytes, pages and files. It does not know rows, boxes or k."""
