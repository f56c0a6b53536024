"""The only code that touches the ledger and adapters on Temporal's behalf."""
