import sys

from textpriv.assets.command import main

sys.exit(main())
