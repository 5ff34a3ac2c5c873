"""The explorer as a Hugging Face Space; also `python app.py` anywhere."""

from __future__ import annotations

import os

from longreach.explorer.server import serve

serve(
    host=os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0"),
    port=int(os.environ.get("GRADIO_SERVER_PORT", "7860")),
)
