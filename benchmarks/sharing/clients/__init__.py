"""Client processes: each stores the jobs of a case, works on them with so many slots, and says when each started."""
