"""Files, frames and streams in and out, as Arrow record batches."""
