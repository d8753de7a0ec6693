"""How fast a step is, beside a plain supernet."""
