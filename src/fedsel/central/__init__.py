"""What local reports guarantee centrally, once a shuffler has lost who sent which."""
