"""`python -m rtree_anon.cli`, the same as the command `rtree-anon`."""

from rtree_anon.cli import main

main()
