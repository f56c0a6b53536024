"""The demonstration: real payments, real faults, and the outside's own books at the end."""
