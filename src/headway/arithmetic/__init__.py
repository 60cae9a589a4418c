"""Model shapes and what follows from them: parameters, cache bytes, FLOPs."""
