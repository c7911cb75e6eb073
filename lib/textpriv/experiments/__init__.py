"""What the notebooks call: one module per notebook, sizes from the profile."""
