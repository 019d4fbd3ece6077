"""For asv: the folder that it reads."""
