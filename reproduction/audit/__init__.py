"""The audit of all mechanisms: certify, attack and measure each of them."""
