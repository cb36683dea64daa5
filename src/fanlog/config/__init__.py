"""The settings of one server, resolved once, before anything starts.

Each setting comes from the first of these that names it: a flag, a `FANLOG_*` variable, the TOML
file, its default. Nothing is accepted and ignored: an unknown key or variable, a value of the wrong
type or out of range, and settings that contradict each other are refused with a sentence that names
the setting and where it stood.

`memory` and `data_dir` are one choice between two engines, `seal_key` and `seal_key_file` one
between two places of a key. The first source that names either decides; one source that names both
is refused.
"""

from __future__ import annotations

from fanlog.config.settings import PROJECT_DEFAULT, Config
from fanlog.config.sources import ENV_FILE, ENV_PREFIX, OTHER_VARIABLES, resolve

__all__ = ["ENV_FILE", "ENV_PREFIX", "OTHER_VARIABLES", "PROJECT_DEFAULT", "Config", "resolve"]
