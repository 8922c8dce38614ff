"""fedsel inside other people's engines, each an extra of its own."""
