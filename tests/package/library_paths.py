"""Where programs and libraries look for others: no place may depend on the working directory.

An empty element of a RUNPATH is the working directory to the loader, a relative one lies below it, and a needed library whose
name has a slash but does not begin with one is opened from there too.
"""

import re
import subprocess

ELF = b"\x7fELF"


def elf_files(folder):
    """Programs and shared libraries below `folder`; neither archives nor objects, which the loader never sees.

    Folders of tests that run beside this one, NAME.work, are left out: what they make comes and goes.
    """
    for path in sorted(folder.rglob("*")):
        if any(part.endswith(".work") for part in path.relative_to(folder).parts):
            continue
        if path.is_symlink() or not path.is_file() or path.suffix in (".a", ".o", ".gch"):
            continue
        with path.open("rb") as file:
            if file.read(4) == ELF:
                yield path


def places_of(path):
    """(elements of RUNPATH and RPATH, names of needed libraries) of one file."""
    said = subprocess.run(["readelf", "--dynamic", "--wide", path], check=True, capture_output=True, text=True, timeout=60).stdout
    lists = re.findall(r"\((?:RUNPATH|RPATH)\).*?\[(.*)\]", said)
    return [place for some in lists for place in some.split(":")], re.findall(r"\(NEEDED\).*?\[(.*)\]", said)


def is_absolute(place):
    return place.startswith("/") or re.match(r"\$ORIGIN(/|$)|\$\{ORIGIN\}(/|$)", place) is not None


def complaints(path):
    """One line for each place of the file that depends on the working directory."""
    places, needed = places_of(path)
    found = [f"{path}: looks for libraries in '{place}'" for place in places if not is_absolute(place)]
    return found + [f"{path}: needs '{name}'" for name in needed if "/" in name and not is_absolute(name)]
