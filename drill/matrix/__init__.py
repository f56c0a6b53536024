"""The matrix: each point where a fault can strike, for each class of outside, by either route."""
