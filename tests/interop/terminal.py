#!/usr/bin/env python3
"""Passes the bytes of the terminal's screens to pyte, a terminal in Python, and compares its screens with those of the tests' terminal model.

    tests/interop/terminal.py FOLDER         compare FOLDER/NAME.COLUMNSxROWS.bytes with FOLDER/NAME.COLUMNSxROWS.txt
    tests/interop/terminal.py --ready        succeeds if pyte is installed
    tests/interop/terminal.py --install DIR  install it in a virtual environment

`cargo test --test terminal pyte` writes the folder. pyte has no synchronised output and other widths for emoji, so screens with emoji
are left out.
"""

import subprocess
import sys
import venv
from pathlib import Path

VERSION = "0.8.2"


def install(folder):
    venv.create(folder, with_pip=True)
    subprocess.run([f"{folder}/bin/pip", "install", "--quiet", f"pyte=={VERSION}"], check=True)


def has_emoji(text):
    return any(ord(c) >= 0x1F000 or ord(c) in (0x200D, 0xFE0F) for c in text)


def shown(data, columns, rows):
    import pyte

    screen = pyte.HistoryScreen(columns, rows, history=100_000, ratio=0.5)
    pyte.ByteStream(screen).feed(data)

    def line(cells):
        return "".join(cells[column].data for column in range(columns)).rstrip()

    lines = [line(cells) for cells in screen.history.top] + [line(screen.buffer[row]) for row in range(rows)]
    return "\n".join(lines).rstrip()


def main(folder):
    wrong, compared = [], 0
    for file in sorted(Path(folder).glob("*.bytes")):
        expected = file.with_suffix(".txt").read_text()
        if has_emoji(expected):
            continue
        columns, rows = map(int, file.stem.rsplit(".", 1)[1].split("x"))
        # Sequences that set the keyboard protocol show nothing; pyte would print a part of them.
        data = file.read_bytes().replace(b"\x1b[>1u", b"").replace(b"\x1b[<u", b"")
        seen = shown(data, columns, rows)
        compared += 1
        if seen != expected:
            wrong.append(f"{file.stem}\n--- pyte\n{seen}\n--- the terminal model\n{expected}")
    print(f"{compared} screens compared, {len(wrong)} differ")
    print("\n\n".join(wrong))
    return 1 if wrong or not compared else 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--ready"]:
            import pyte  # noqa: F401
        case ["--install", folder]:
            install(folder)
        case [folder]:
            sys.exit(main(folder))
        case _:
            sys.exit(__doc__)
