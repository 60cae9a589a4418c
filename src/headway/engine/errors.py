"""What a user can get wrong about a model."""


class ModelError(ValueError):
    """A model that cannot be found, read or run; one line that names the file, tensor or key and what is allowed."""
