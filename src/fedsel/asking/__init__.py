"""Ask a question of many clients, each of which answers under local differential privacy."""
