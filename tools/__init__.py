"""What keeps the repository honest: generated pages, pictures, and the package as users install it."""
