"""Plain Temporal: a workflow and an ordinary activity, every setting as it comes."""
