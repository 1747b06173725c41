"""What the columns of a table mean: quasi-identifiers with their types and domains, and the roles of the other columns.

A schema is plain data: it imports neither pyarrow nor numba and can be written to TOML and read back exactly.
Attributes are *unbound* (a name, perhaps an order or a domain) or *bound* (the coding of every value is fixed);
`rtree_anon.io` binds them to data.
"""

from rtree_anon.schema.attributes import Attribute, Boolean, Categorical, Date, Numeric, Timestamp
from rtree_anon.schema.schema import Schema

__all__ = ["Attribute", "Boolean", "Categorical", "Date", "Numeric", "Schema", "Timestamp"]
