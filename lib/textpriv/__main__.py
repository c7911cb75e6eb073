"""`python -m textpriv` is the command `textpriv`."""

from textpriv.command import main

main(prog_name="textpriv")
