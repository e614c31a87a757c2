"""What becomes of variables on their way through `qsub -v LIST` into a job, as OpenPBS has it (qsub.c, attr_fn_arst.c): qsub copies each
value twice, first from its environment and then from the list that it has made so, and the server reads that list.

    qsub_variables.py LIST      prints NAME=VALUE of each, with a zero behind it, or says why qsub refuses it
"""

import os
import sys

ESCAPE = "\\"


class Refused(Exception):
    pass


def copied(text, is_of_environment, knows_escaped_commas):
    """One copy of a value, and how much of the text it has taken: a value of a list ends at a comma. Values of the environment have
    their quotes, commas and backslashes escaped; in a list quotes hold a value together, and go. Since 2021 qsub knows a comma that is
    escaped."""
    copy, quote = "", None
    for at, letter in enumerate(text):
        if letter in "\"'":
            if letter == quote:
                quote = None
            elif quote or is_of_environment:
                copy += ESCAPE + letter
            else:
                quote = letter
        elif letter == ESCAPE:
            copy += ESCAPE if knows_escaped_commas and text[at + 1 : at + 2] == "," else 2 * ESCAPE
        elif letter == ",":
            if quote or is_of_environment:
                copy += ESCAPE + letter
            elif knows_escaped_commas and copy.endswith(ESCAPE):
                copy += letter
            else:
                return copy, at
        else:
            copy += letter
    if quote:
        raise Refused("cannot send environment with the job")
    return copy, len(text)


def entries(listed, environment, knows_escaped_commas):
    """[(name, value)] of a list after one copy."""
    found = []
    while listed:
        name = listed.partition(",")[0].partition("=")[0]
        if not name:
            raise Refused("illegal -v value")
        listed = listed[len(name) :]
        if listed.startswith("="):
            value, taken = copied(listed[1:], False, knows_escaped_commas)
            listed = listed[1 + taken :]
        elif name in environment:
            value = copied(environment[name], True, knows_escaped_commas)[0]
        else:
            raise Refused("cannot send environment with the job")
        found.append((name, value))
        listed = listed.removeprefix(",")
    return found


def read_by_the_server(listed):
    """The entries of a list, which end at commas, without what escapes them."""
    found, entry, at = [], "", 0
    while at < len(listed):
        if listed[at] == ESCAPE and at + 1 < len(listed):
            at += 1
            entry += listed[at] if listed[at] in "\"'," + ESCAPE else ESCAPE + listed[at]
        elif listed[at] == ",":
            found.append(entry)
            entry = ""
        else:
            entry += listed[at]
        at += 1
    return [*found, entry]


def carried(listed, environment, knows_escaped_commas=False):
    """{name: value} that the job has."""
    for source in (environment, {}):
        listed = ",".join(f"{name}={value}" for name, value in entries(listed, source, knows_escaped_commas))
    return dict(entry.partition("=")[::2] for entry in read_by_the_server(listed) if entry)


if __name__ == "__main__":
    try:
        for name, value in carried(sys.argv[1], os.environ).items():
            sys.stdout.write(f"{name}={value}\0")
    except Refused as error:
        sys.exit(f"qsub: {error}")
