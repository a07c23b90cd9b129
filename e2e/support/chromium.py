"""A page as a browser without a network shows it."""

import shutil
import subprocess
import tempfile
from pathlib import Path

# Where nothing listens, so that whatever is asked for fails at once.
_NO_NETWORK = ["--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9", "--disable-background-networking"]


def found() -> str | None:
    """The browser, if there is one (Debian: `apt install chromium`)."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def opened(page: Path) -> str:
    """The document after its scripts have run, as HTML."""
    with tempfile.TemporaryDirectory() as profile:
        # The sandbox needs rights that containers seldom give; pages here are our own.
        flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", *_NO_NETWORK]
        done = subprocess.run(
            [found(), *flags, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=60, check=True
        )
    return done.stdout
