"""Every jitted function, on plain arrays. Nothing here imports the rest of the package."""
