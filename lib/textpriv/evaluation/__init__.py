"""Your own text, sanitizer or attack: sanitize, attack, audit, report.

    found = textpriv.evaluate(texts, mechanism="custext+", epsilon=2)
    found                       # in a notebook: the page; print(found) says it in words
    found.risks                 # attack by attack, with intervals
    found.page("report.html")   # one file that works offline

The command `textpriv` and the functions of the package `textpriv` itself are made of these modules.
"""
