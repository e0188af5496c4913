"""Where state lives: three narrow ports (ports.py) and two engines that implement them, ``aws`` and ``embedded``."""
