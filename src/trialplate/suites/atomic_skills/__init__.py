"""Suite ``atomic-skills``: fifteen skills, plans replayed once in physics. Importing it loads no simulator."""
