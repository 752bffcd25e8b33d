"""Runs MiniStack for as long as the standard input is open.

Whoever started it holds the other end, so it ends with that process however
that ends, on any system, and takes its temporary folder along.
"""

import os
import shutil
import sys
import threading


def end_with_parent():
    sys.stdin.buffer.read()
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
    os._exit(0)


threading.Thread(target=end_with_parent, daemon=True).start()
sys.argv = ["ministack"]

from ministack.app import main  # noqa: E402 (the thread above must not wait for it)

main()
