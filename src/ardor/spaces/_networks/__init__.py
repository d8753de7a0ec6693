"""Networks that are known by name, a file each: spaces without choices, to train and compress."""
