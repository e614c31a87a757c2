"""Reads how a build folder compiles each source of the project, one by one or with others (DDPM_UNITY)."""

import json
import re
from pathlib import Path

INCLUDED = re.compile(r'^#include "([^"]+\.cpp)"', re.MULTILINE)


def commands_by_source(build, root):
    """{source: entry of compile_commands.json} of the C++ sources below `root`. The entry of a source that is compiled with
    others is theirs: its command names another file, and `together` is true."""
    by_source = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = Path(entry["file"])
        together = file.parent.name == "Unity"
        for source in INCLUDED.findall(file.read_text()) if together else [file]:
            path = Path(source).resolve()
            if path.suffix == ".cpp" and root in path.parents:
                by_source[path] = {**entry, "together": together}
    return by_source
