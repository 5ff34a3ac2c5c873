"""What the clinic found, for people: tables in a terminal, and plots."""
