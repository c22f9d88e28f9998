"""`python -m infold`: the same as the command `infold`."""

from infold.command import main

if __name__ == "__main__":
    main()
