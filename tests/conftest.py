"""What all tests share: a cache folder of their own."""

import os
import tempfile

os.environ.setdefault("LEMMATA_CACHE", os.path.join(tempfile.gettempdir(), "lemmata-test-cache"))
