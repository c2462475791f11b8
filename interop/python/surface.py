"""surface.json, as the demo server and the client in Python read it."""

import json
from pathlib import Path
from typing import Any

SURFACE: dict[str, Any] = json.loads((Path(__file__).parent.parent / "surface.json").read_text(encoding="utf-8"))
