"""What nets are made of: variational layers, blocks, operations, and sums under gates."""
