"""Would the tests notice? One small change at a time in the trusted core (`make mutants`)."""
