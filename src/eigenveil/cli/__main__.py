"""`python -m eigenveil.cli`."""

from . import main

main()
