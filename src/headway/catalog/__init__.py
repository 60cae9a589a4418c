"""Facts with their sources: chips, systems, models, prices."""
