"""`python docs/site/make_site.py FOLDER`: the site of all pages in FOLDER/html, for a browser without a network.

Raises SystemExit if a link leads nowhere, or if a page asks for anything from another host.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path

from collect import collect

_HERE = Path(__file__).parent
_SHIM = "https://unpkg.com/iframe-worker/shim"  # what pages load for search where they are opened as files
_ASKED = re.compile(
    r'<(?:script|img|iframe)[^>]*\ssrc="(\w+:[^"]*)"'
    r'|<link(?! rel="canonical")[^>]*\shref="(\w+:[^"]*)"'
)
_LED = re.compile(r'<(?:a|img)\s[^>]*?(?:href|src)=(?:"([^":#]+)[#"]|([^":#\s>]+)[#\s>])')


def make_site(folder: Path) -> None:
    """Collect the pages and have them built. folder: emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    collect(folder / "pages")
    shutil.copyfile(_HERE / "site.css", folder / "pages" / "site.css")
    shutil.copyfile(_HERE / "zensical.toml", folder / "zensical.toml")
    built = subprocess.run([Path(sys.executable).with_name("zensical"), "build", "--strict"], cwd=folder, check=False)
    if built.returncode:
        raise SystemExit(built.returncode)
    shutil.copyfile(_HERE / "worker.js", folder / "html" / "assets" / "worker.js")
    for path in (folder / "html").rglob("*.html"):
        up = "../" * (len(path.relative_to(folder / "html").parts) - 1)
        text = path.read_text().replace(_SHIM, f"{up}assets/worker.js")
        path.write_text(text)
        if asked := _ASKED.search(text):
            raise SystemExit(f"{path}: asks another host: {asked[0]}")
        for link in {urllib.parse.unquote(quoted or bare) for quoted, bare in _LED.findall(text)}:
            if link.startswith("/"):  # in 404.html, which a server shows anywhere
                continue
            if not (path.parent / link).exists():
                raise SystemExit(f"{path}: leads nowhere: {link}")


if __name__ == "__main__":
    make_site(Path(sys.argv[1]))
