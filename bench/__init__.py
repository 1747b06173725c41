"""Benchmarks: one file per question, seeded workloads, raw results as JSON in bench/results/."""
