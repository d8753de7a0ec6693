"""The machine: device, random numbers, progress, cost, and files written whole or not at all."""
