"""`VERSION` is the version of the package, for whoever records it."""

VERSION = "0.1.0.dev0"
