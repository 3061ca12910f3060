"""How data leaves the program: text that is only text, numbers that JSON can hold, tables."""
