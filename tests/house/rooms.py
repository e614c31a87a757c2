"""The table of folders in docs/architecture.md, which is the only one: what each may include."""

import re
from pathlib import Path

PAGE = Path("docs/architecture.md")
HEAD = "| folder | holds | may include |"
ROW = re.compile(r"^\| `(?P<name>\w+(?:/\w+)?)` \| (?P<holds>[^|]+) \| (?P<may>[^|]+) \|$")


def allowed_includes(page):
    """Folder: the other folders of src that it may include, in the order of the table in the text `page`.

    The last column holds "–", names of rows above, "all above", or "all above but" names. A row may name none below it, so
    that the folders cannot include each other in a circle. Raises ValueError for a table that is not like that.
    """
    lines = page.split("\n")
    if HEAD not in lines:
        raise ValueError(f"{PAGE} has no line '{HEAD}'")
    allowed = {}
    for line in lines[lines.index(HEAD) + 2 :]:
        row = ROW.match(line)
        if row is None:
            break
        allowed[row["name"]] = _folders(row["may"].strip(), row["name"], allowed)
    return allowed


def room_of(path, allowed):
    """The row of the table that the file or header `path` of src belongs to: "data/prepare" before "data"; "" if none."""
    parts = path.split("/")[:-1]
    return next((name for size in (2, 1) if (name := "/".join(parts[:size])) in allowed and len(parts) >= size), "")


def _folders(text, name, above):
    every, but, exceptions = text.partition("all above")
    if text == "–":
        return set()
    named = exceptions.removeprefix(" but ") if but else every
    folders = {word.strip() for word in named.split(",") if word.strip()}
    unknown = folders - above.keys()
    if unknown:
        raise ValueError(f"{PAGE}: the row of `{name}` names {', '.join(sorted(unknown))}, which no row above it has")
    return above.keys() - folders if but else folders


def circles(edges):
    """The groups of nodes that reach each other in the graph {node: its successors}; none where there is no circle."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for successor in edges.get(node, ()):
            if successor not in order:
                visit(successor)
                low[node] = min(low[node], low[successor])
            elif successor in stack:
                low[node] = min(low[node], order[successor])
        if low[node] == order[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(edges):
        if node not in order:
            visit(node)
    return sorted(found)
