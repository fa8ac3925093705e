"""Certifying any fit: who is asked, other libraries' models, costs of fits, and how certificates are shown."""
