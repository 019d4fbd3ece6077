"""``python -m dualad``: the same as the console script ``dualad``. Not for importing."""

import sys

from dualad.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
