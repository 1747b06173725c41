"""Tests of releases: what they promise, how they look, what they cost, how they are written."""
