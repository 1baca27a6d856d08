"""`python -m kstore …` is `kstore-server …`."""

import os
import sys

from ._binary import find_server

if __name__ == "__main__":
    server = find_server()
    os.execv(server, [server, *sys.argv[1:]])
