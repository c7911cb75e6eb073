"""How this repository runs itself; the library never imports it.

`runner` runs the notebooks (with `options`, `notebooks`, `state`, `execute` and `forecast`) and
`audits` the long audits; `documents` writes what documents say of results, `site` the
web pages.
"""
