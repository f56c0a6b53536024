"""Others that do the same job, as their own pages say to; in no environment but the one of ``--peers``."""
