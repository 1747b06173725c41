"""Files, frames and streams in and out, as Arrow record batches, and the coding of columns to ordered whole numbers.

sources (files, csv_files)  anything that users hand in  ─► record batches of the columns that are needed
text_types, text_parsing    text columns of CSV          ─► typed columns
binding                     what a schema leaves open    ─► bound attributes
coding (values, domains)    columns                     ◄─► codes
table                       all of it, for a table that fits in memory
"""
