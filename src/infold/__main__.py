"""`python -m infold`: the same as the command `infold`."""

from infold.cli.main import main

if __name__ == "__main__":
    main(prog_name="infold")
