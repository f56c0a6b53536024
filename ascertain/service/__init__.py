"""The tables that stand in a service's own database, and the SQL that works on them."""
