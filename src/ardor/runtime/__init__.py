"""The machine: device, random numbers, progress, cost, memory, and files on disk."""
