"""A serving benchmark: the same jobs against each engine in turn, over HTTP."""
