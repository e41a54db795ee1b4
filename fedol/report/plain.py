"""Other people's words on a terminal: names, paths and reasons as they are."""

from __future__ import annotations

from rich.text import Text

from fedol.text import shown


def plain(words: str, style: str = "") -> Text:
    """Words that Rich reads neither as markup nor as emoji, and that cannot command the terminal."""
    return Text(shown(words), style)
