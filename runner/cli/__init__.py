"""The command line: each command puts the layers together and does nothing that a layer could do."""
