r"""Java's regular expressions, as patterns of the `regex` package.

What differs is rewritten: names of groups, \Q…\E, classes of characters, escapes, properties such as \p{IsAlphabetic},
flags. \w, \d and \s mean ASCII only, and `.` does not match Java's line ends. The match itself is that of `regex`,
whose `(?i)` ignores the case of all letters, where Java's does so for ASCII only, unless it is `(?iu)`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import regex

from hayase.sql.errors import FunctionError

Pattern = Any

_SPECIAL = set("\\^$.|?*+()[]{}-&~#/: \t\n\r\f\v")
_CLASSES = {
    "h": r" \t\xA0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "v": r"\n\x0B\f\r\x85\u2028\u2029",
    "d": "0-9",
    "s": r" \t\n\x0B\f\r",
    "w": "a-zA-Z_0-9",
}
_POSIX = {
    "Lower": "a-z", "Upper": "A-Z", "ASCII": r"\x00-\x7F", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~", "Graph": "!-~", "Print": " -~", "Blank": r" \t", "Cntrl": r"\x00-\x1F\x7F",
    "XDigit": "0-9a-fA-F", "Space": r" \t\n\x0B\f\r",
}  # fmt: skip
_JAVA = {
    "javaLowerCase": r"\p{Lowercase}", "javaUpperCase": r"\p{Uppercase}", "javaWhitespace": r"\s\x1C-\x1F",
    "javaAlphabetic": r"\p{Alphabetic}", "javaLetter": r"\p{L}", "javaDigit": r"\p{Nd}",
    "javaLetterOrDigit": r"\p{L}\p{Nd}", "javaMirrored": r"\p{Bidi_Mirrored}",
}  # fmt: skip
_SIMPLE_ESCAPES = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f", "a": r"\x07", "e": r"\x1B"}
_WORD = r"(?:(?<=[\p{L}\p{Nd}_])(?![\p{L}\p{Nd}_])|(?<![\p{L}\p{Nd}_])(?=[\p{L}\p{Nd}_]))"
_NOT_WORD = r"(?:(?<=[\p{L}\p{Nd}_])(?=[\p{L}\p{Nd}_])|(?<![\p{L}\p{Nd}_])(?![\p{L}\p{Nd}_]))"
_LINE_END = r"(?:\r\n|[\n\x0B\f\r\x85\u2028\u2029])"
_DOT = r"[^\n\r\x85\u2028\u2029]"
_END = r"(?=(?:\r\n|[\n\r\x85\u2028\u2029])?\Z)"
_MULTILINE_START = r"(?:(?<=\A|\n|\r(?!\n)|[\x85\u2028\u2029])(?!\Z)|\A)"
_MULTILINE_END = r"(?=\r\n|(?<!\r)\n|[\r\x85\u2028\u2029]|\Z)"


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Pattern:
    """A pattern of Java, compiled; a `FunctionError` if it is none."""
    try:
        return regex.compile(_Translator(pattern).text(), regex.V1)
    except (regex.error, _BadPatternError, IndexError, OverflowError, ValueError) as error:
        raise FunctionError("BAD_REGULAR_EXPRESSION", f"Invalid regular expression {pattern!r:.200}: {error}") from None


class _BadPatternError(ValueError):
    """A pattern that Java refuses."""


class _Translator:
    """Reads a pattern once; flags hold to the end of their group."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0
        self.flags = frozenset[str]()

    def text(self) -> str:
        """The whole pattern."""
        found = self.alternatives()
        if self.position < len(self.pattern):
            raise _BadPatternError(f"unmatched ) at position {self.position + 1}")
        return found

    def alternatives(self) -> str:
        """Up to the end, or a closing parenthesis."""
        parts: list[str] = []
        opened = 0
        outer = self.flags
        while self.position < len(self.pattern) and self.pattern[self.position] != ")":
            part, opens = self.item()
            parts.append(part)
            opened += opens
        self.flags = outer
        return "".join(parts) + ")" * opened

    def next(self) -> str:
        """The next character, which is passed."""
        character = self.pattern[self.position]
        self.position += 1
        return character

    def item(self) -> tuple[str, int]:
        """One element, and how many groups it leaves open to the end."""
        character = self.next()
        match character:
            case "\\":
                return self.escape(), 0
            case "[":
                return self.character_class(), 0
            case "(":
                return self.group()
            case ".":
                return ("(?s:.)" if "s" in self.flags else r"[^\n]" if "d" in self.flags else _DOT), 0
            case "^":
                return (_MULTILINE_START if "m" in self.flags else r"\A"), 0
            case "$":
                return (_MULTILINE_END if "m" in self.flags else _END), 0
            case "#" if "x" in self.flags:
                end = self.pattern.find("\n", self.position)
                self.position = len(self.pattern) if end < 0 else end + 1
                return "", 0
            case " " | "\t" | "\n" | "\r" | "\f" | "\x0b" if "x" in self.flags:
                return "", 0
            case "{" if not regex.match(r"\d+(?:,\d*)?\}", self.pattern[self.position :]):
                raise _BadPatternError(f"{{ without a repetition at position {self.position}")
            case "*" | "+" | "?" | "|" | "{" | "}":
                return character if character != "}" or "{" in self.pattern[: self.position] else r"\}", 0
        return self.literal(character), 0

    @staticmethod
    def literal(character: str) -> str:
        """A character as itself."""
        return "\\" + character if character in _SPECIAL and not character.isspace() else character

    def group(self) -> tuple[str, int]:
        """What follows an opening parenthesis."""
        rest = self.pattern[self.position :]
        opening = "("
        for java, ours in (("?<=", "?<="), ("?<!", "?<!"), ("?=", "?="), ("?!", "?!"), ("?>", "?>"), ("?:", "?:")):
            if rest.startswith(java):
                self.position += len(java)
                opening = "(" + ours
                break
        else:
            if named := regex.match(r"\?<([a-zA-Z][a-zA-Z0-9]*)>", rest):
                self.position += named.end()
                opening = f"(?P<{named[1]}>"
            elif flags := regex.match(r"\?([idmsuxU]*)(?:-([idmsuxU]*))?(\)|:)", rest):
                self.position += flags.end()
                return self.flagged(flags[1], flags[2] or "", flags[3])
            elif rest.startswith("?"):
                raise _BadPatternError(f"unknown group at position {self.position + 1}")
        inner = self.alternatives()
        self.close()
        return opening + inner + ")", 0

    def flagged(self, on: str, off: str, end: str) -> tuple[str, int]:
        """Flags for a group, or for the rest of the group that they stand in."""
        outer = self.flags
        self.flags = (outer | set(on)) - set(off)
        change = "(?i:" if "i" in self.flags and "i" not in outer else "(?-i:" if "i" in off and "i" in outer else "(?:"
        if end == ")":
            return (change, 1) if change != "(?:" else ("", 0)
        inner = self.alternatives()
        self.flags = outer
        self.close()
        return change + inner + ")", 0

    def close(self) -> None:
        """Passes a closing parenthesis."""
        if self.position >= len(self.pattern):
            raise _BadPatternError("a group is not closed")
        self.position += 1

    def escape(self) -> str:
        """What follows a backslash, outside of a class."""
        if self.position >= len(self.pattern):
            raise _BadPatternError("nothing follows the last backslash")
        character = self.next()
        match character:
            case "Q":
                return self.quoted()
            case "b":
                return _WORD
            case "B":
                return _NOT_WORD
            case "A" | "G" | "X":
                return "\\" + character
            case "Z":
                return _END
            case "z":
                return r"\Z"
            case "R":
                return _LINE_END
            case "k":
                named = regex.match(r"<([a-zA-Z][a-zA-Z0-9]*)>", self.pattern[self.position :])
                if named is None:
                    raise _BadPatternError(r"\k must be followed by a name such as <name>")
                self.position += named.end()
                return f"(?P={named[1]})"
        if character in "123456789":
            return self.back_reference(character)
        inner, is_set = self.class_escape(character)
        return f"[{inner}]" if is_set else inner

    def quoted(self) -> str:
        r"""The text before \E."""
        end = self.pattern.find("\\E", self.position)
        end = len(self.pattern) if end < 0 else end
        text = self.pattern[self.position : end]
        self.position = min(end + 2, len(self.pattern))
        return "".join(map(self.literal, text))

    def back_reference(self, digits: str) -> str:
        """A number of a group: as many digits as there are groups for."""
        groups = len(regex.findall(r"(?<!\\)\((?!\?)|\(\?<[a-zA-Z]", self.pattern))
        while self.position < len(self.pattern) and self.pattern[self.position].isdigit():
            longer = digits + self.pattern[self.position]
            if int(longer) > groups:
                break
            digits = longer
            self.position += 1
        if int(digits) > groups:
            return "(?!)"
        return f"(?:\\{digits})"

    def class_escape(self, character: str) -> tuple[str, bool]:
        """An escape that may stand in a class, and whether it is a set."""
        if character.lower() in _CLASSES:
            inner = _CLASSES[character.lower()]
            return (inner if character.islower() else f"[^{inner}]"), True
        if character in "pP":
            return self.property(character == "P"), True
        if character in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[character], False
        if character in "xu0c":
            return self.code_point(character), False
        if character == "N" and (named := regex.match(r"\{[A-Za-z0-9 -]+\}", self.pattern[self.position :])):
            self.position += named.end()
            return "\\N" + str(named[0]), False
        if character.isascii() and character.isalpha():
            raise _BadPatternError(f"\\{character} is unknown")
        return self.literal(character), False

    def code_point(self, kind: str) -> str:
        """A character by its number."""
        patterns = {
            "x": r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]+)\}", "u": r"([0-9a-fA-F]{4})", "0": r"([0-3]?[0-7]{1,2})",
            "c": r"(?s:(.))",
        }  # fmt: skip
        found = regex.match(patterns[kind], self.pattern[self.position :])
        if found is None:
            raise _BadPatternError(f"\\{kind} must be followed by a number")
        self.position += found.end()
        text = next(group for group in found.groups() if group is not None)
        if kind == "c":
            return f"\\x{ord(text) ^ 64:02x}"
        return f"\\U{int(text, 8 if kind == '0' else 16):08x}"

    def property(self, negated: bool) -> str:
        r"""What follows \p or \P, as content of a class."""
        if self.position < len(self.pattern) and self.pattern[self.position] == "{":
            end = self.pattern.find("}", self.position)
            if end < 0:
                raise _BadPatternError(r"\p{ is not closed")
            name = self.pattern[self.position + 1 : end]
            self.position = end + 1
        else:
            name = self.next()
        if name in _POSIX or name in _JAVA:
            inner = _POSIX.get(name) or _JAVA[name]
        elif name.startswith("In"):
            inner = f"\\p{{Block={name[2:]}}}"
        elif name.startswith("Is"):
            inner = f"\\p{{{name[2:]}}}"
        else:
            inner = f"\\p{{{name}}}"
        return f"[^{inner}]" if negated else f"[{inner}]"

    def character_class(self) -> str:
        """What follows an opening bracket: unions, nested classes, && as intersection."""
        negated = self.position < len(self.pattern) and self.pattern[self.position] == "^"
        self.position += negated
        operands: list[list[str]] = [[]]
        first = True
        while True:
            if self.position >= len(self.pattern):
                raise _BadPatternError("a class is not closed")
            character = self.next()
            if character == "]" and not first:
                break
            first = False
            if character == "[":
                operands[-1].append(self.character_class())
            elif character == "&" and self.pattern.startswith("&", self.position):
                self.position += 1
                operands.append([])
            elif character == "\\":
                operands[-1].append(self.class_member())
            elif character == "-" and operands[-1] and not self.pattern.startswith("]", self.position):
                operands[-1].append("-" if operands[-1][-1] != "-" else r"\-")
            else:
                operands[-1].append(self.literal(character))
        parts = ["".join(operand) for operand in operands if operand]
        joined = parts[0] if len(parts) == 1 else "&&".join(f"[{part}]" for part in parts)
        return f"[{'^' if negated else ''}{joined}]"

    def class_member(self) -> str:
        """What follows a backslash in a class."""
        character = self.next()
        if character == "Q":
            return self.quoted()
        return self.class_escape(character)[0]


_GROUP_NAME = regex.compile(r"\{([a-zA-Z][a-zA-Z0-9]*)\}")


def expanded(match: Any, replacement: str) -> str:
    """The replacement of a match: `$1` and `${name}` are groups, a backslash takes the next character as it is."""
    parts: list[str] = []
    position = 0
    while position < len(replacement):
        character = replacement[position]
        position += 1
        if character == "\\":
            if position == len(replacement):
                raise FunctionError(
                    "BAD_REPLACEMENT", f"replacement {replacement!r}: nothing follows the last backslash"
                )
            parts.append(replacement[position])
            position += 1
        elif character != "$":
            parts.append(character)
        else:
            group, position = _group(match, replacement, position)
            parts.append(match[group] or "")
    return "".join(parts)


def _group(match: Any, replacement: str, position: int) -> tuple[int | str, int]:
    """The group that stands behind a `$`, and the position behind it."""
    groups = match.re.groups
    if named := _GROUP_NAME.match(replacement, position):
        if named[1] not in match.re.groupindex:
            raise FunctionError("BAD_REPLACEMENT", f"replacement {replacement!r}: there is no group {named[1]!r}")
        return str(named[1]), int(named.end())
    end = position
    while end < len(replacement) and replacement[end] in "0123456789":
        if end > position and int(replacement[position : end + 1]) > groups:
            break
        end += 1
    if end == position or int(replacement[position:end]) > groups:
        raise FunctionError(
            "BAD_REPLACEMENT",
            f"replacement {replacement!r}: $ must be followed by a group from 0 to {groups}, or escaped",
        )
    return int(replacement[position:end]), end
