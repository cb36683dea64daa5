"""A place in the text of a filter: words, quoted strings, and refusals that name the column.

The scanner knows characters and nothing of grammar. The parser says which token may come next;
names and values have different alphabets, so words are cut when they are asked for, not before.
"""

from __future__ import annotations

import re

from fanlog.errors import InvalidArgument

#: Characters of keys and names that are not quoted (Google).
NAME = re.compile(r"[A-Za-z0-9_-]+")
#: Characters of values that are not quoted.
WORD = re.compile(r"[A-Za-z0-9\-_.~+%/:@*]+")
#: The same, for sentences.
WORD_RULE = "letters, digits and -_.~+%/:@*"
_SPACE = re.compile(r"[ \t\r\n]*")
_SYMBOLS = re.compile(r"[&|=!<>~]{1,2}")
#: Longest piece of a filter that a sentence repeats.
_SHOWN_MAX = 60

#: Pieces of a string between stars that stand for anything; a string without such stars is one.
Parts = tuple[str, ...]

_ESCAPES = dict(zip('\\"ntrabfv', '\\"\n\t\r\a\b\f\v', strict=True))
#: Escapes with a code: how many digits, and of which base.
_CODES = {"x": (2, 16), "u": (4, 16), "U": (8, 16)}
_CODE_HINT = r"octal ends at \377, others at \U0010FFFF, and surrogates are none"
_HEX = frozenset("0123456789abcdefABCDEF")
_OCTAL = frozenset("01234567")
_CURLY = "“”„«»"


def cut(text: str) -> str:
    """Shorten text that a refusal repeats: it travels in gRPC trailers, which are small."""
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


class FilterError(InvalidArgument):
    """A filter is not understood; the sentence names the expected token, and where."""

    def __init__(self, message: str) -> None:
        super().__init__(f"filter: {message}")


class Scanner:
    """Reads one text from left to right. Not safe to share."""

    def __init__(self, text: str, *, of: str = "") -> None:
        """Begin at the first character; `of` says in refusals which text the columns count in."""
        self.text = text
        self.position = 0
        #: Nothing was read so far that Google's language does not have.
        self.is_google = True
        self._of = of

    def skip_space(self) -> None:
        found = _SPACE.match(self.text, self.position)
        assert found is not None
        self.position = found.end()

    @property
    def is_at_end(self) -> bool:
        return self.position == len(self.text)

    def is_at(self, symbol: str) -> bool:
        return self.text.startswith(symbol, self.position)

    def take(self, symbol: str) -> bool:
        """Step over a symbol, if it is here."""
        if not self.is_at(symbol):
            return False
        self.position += len(symbol)
        return True

    def peek(self, pattern: re.Pattern[str] = NAME) -> str:
        """Give the word that begins here, or nothing."""
        found = pattern.match(self.text, self.position)
        return found[0] if found else ""

    def read_quoted(self) -> Parts:
        """Read a string from its opening to its closing quote."""
        begin = self.position
        self.position += 1
        parts: list[str] = []
        piece: list[str] = []
        while not self.is_at_end:
            char = self.text[self.position]
            if char == '"':
                self.position += 1
                return (*parts, "".join(piece))
            if char == "*":
                parts.append("".join(piece))
                piece = []
                self.position += 1
            else:
                piece.append(self._escape() if char == "\\" else self._plain(char))
        raise self.refusal("a string without its closing quote", begin)

    def _plain(self, char: str) -> str:
        # Text from outside is UTF-8 and has none; a str in Python may.
        if "\ud800" <= char <= "\udfff":
            raise self.refusal("half of a surrogate pair")
        self.position += 1
        return char

    def _escape(self) -> str:
        char = self.text[self.position + 1 : self.position + 2]
        if char in _ESCAPES and char:
            self.position += 2
            return _ESCAPES[char]
        if char == "*":
            self.is_google = False
            self.position += 2
            return char
        if char in _CODES:
            count, base = _CODES[char]
            return self._code(self.position + 2, count, base)
        if char in _OCTAL:
            return self._code(self.position + 1, 3, 8)
        raise self.refusal(f'an unknown escape "\\{char}"', hint='a backslash itself is "\\\\"')

    def _code(self, begin: int, count: int, base: int) -> str:
        digits = self.text[begin : begin + count]
        if len(digits) < count or not (_HEX if base == 16 else _OCTAL).issuperset(digits):
            kind = "hexadecimal" if base == 16 else "octal"
            raise self.refusal(f"an escape that lacks its {count} {kind} digits")
        code = int(digits, base)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF or (base == 8 and code > 0o377):
            raise self.refusal("an escape that is no character", hint=_CODE_HINT)
        self.position = begin + count
        return chr(code)

    # The parts of a refusal's sentence.

    def where(self, position: int | None = None) -> str:
        column = (self.position if position is None else position) + 1
        return f"at column {column}{self._of}"

    def describe_next(self) -> str:
        """Name the next token, for the end of a sentence."""
        if self.is_at_end:
            return "the end"
        char = self.text[self.position]
        if char == '"':
            return "a quoted string"
        run = self.peek(WORD) or self.peek(_SYMBOLS) or char
        return f'"{cut(run)}"' if run.isprintable() else ascii(run)

    def syntax_error(self, what: str, hint: str = "") -> FilterError:
        """Make the refusal of the next token."""
        self.skip_space()
        return self.refusal(f"expected {what}", tail=f", found {self.describe_next()}", hint=hint)

    def refusal(
        self, what: str, position: int | None = None, *, tail: str = "", hint: str = ""
    ) -> FilterError:
        hint = self._quotes_hint() or hint
        return FilterError(f"{what} {self.where(position)}{tail}{f'; {hint}' if hint else ''}")

    def _quotes_hint(self) -> str:
        char = self.text[self.position : self.position + 1]
        if char and char in "'`" + _CURLY:
            return 'strings have plain double quotes: "…"'
        return ""
