"""The web site, by Sphinx: `make site`."""
