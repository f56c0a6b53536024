"""The fault drill: named crash points, worn by real workers from outside."""
