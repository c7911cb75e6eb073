"""Your own text, sanitizer or attack: sanitize, attack, audit, report.

    result = textpriv.evaluate(texts, mechanism="custext+", epsilon=2)
    result                      # in a notebook: the page; print(result) says it in words
    result.risks                # attack by attack, with intervals
    result.page("report.html")  # one file that works offline

The command `textpriv` and the functions of the package `textpriv` itself are made of these modules.
"""
