"""Speed against peers' methods, as ratios measured in one run: `python -m benchmarks`."""
