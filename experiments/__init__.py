"""The experiments of the papers, repeated with the public names of eigenveil: `python -m experiments --help`."""
