"""Real server processes under real faults, watched from outside."""
