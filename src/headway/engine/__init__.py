"""The real bodies. Importing this package, or `messages`, does not import torch."""
