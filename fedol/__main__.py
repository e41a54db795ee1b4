"""``python -m fedol``."""

from fedol.cli import main

main()
