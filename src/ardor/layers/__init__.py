"""The parts of nets: variational layers, blocks, operations, and sums under gates."""
