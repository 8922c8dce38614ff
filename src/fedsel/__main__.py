"""``python -m fedsel``"""

from fedsel.cli import main

if __name__ == "__main__":
    main()
