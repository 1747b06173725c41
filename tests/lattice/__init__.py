"""Tests of the lattice module."""
