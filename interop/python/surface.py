"""surface.json (or the file in SURFACE), for the demo server and the client in Python."""

import json
import os
from pathlib import Path
from typing import Any

_path = os.environ.get("SURFACE") or Path(__file__).parent.parent / "surface.json"
SURFACE: dict[str, Any] = json.loads(Path(_path).read_text(encoding="utf-8"))
