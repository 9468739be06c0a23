"""The version of this package, read by the build and written into releases."""

__version__ = "0.1.0"
