"""`python -m textpriv` is the command `textpriv`."""

from textpriv.command import main

if __name__ == "__main__":
    main()
