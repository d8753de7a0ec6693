"""How fast a step is, compared with a plain supernet."""
