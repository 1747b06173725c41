"""Files, frames and streams in and out, as Arrow record batches, and the coding of columns to ordered whole numbers.

sources (files, csv_files)      anything that users hand in  ─► record batches of the columns that are needed
text_types, text_parsing        text columns of CSV          ─► typed columns
binding                         what a schema leaves open    ─► bound attributes
coding (values, domains)        quasi-identifiers           ◄─► codes
stored_columns (column_codings) carried columns             ◄─► codes and dictionaries, for an index
table                           all of it, for a table that fits in memory
loading (planning, sampling)    all of it batch by batch, for a bulk load of any size
"""
