"""`python -m runner`: the same command line on the host and in the runner container."""

from runner.cli.app import main

if __name__ == "__main__":
    main()
