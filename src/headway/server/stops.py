"""Stop strings: found across token borders, holding back only the tail that could still begin one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Emitted:
    text: str
    """What can be sent now."""
    stopped_by: str | None = None


class StopStrings:
    """One automaton (Knuth, Morris, Pratt) a string, fed character by character, so any chunking gives the same text.

    The string that is complete first wins; of two complete at the same character, the longer. A character costs
    amortised constant time for each string.
    """

    def __init__(self, strings: tuple[str, ...], *, include: bool = False) -> None:
        self._automata = [_Automaton(string) for string in sorted(set(strings), key=len, reverse=True)]
        self._include = include
        self._held = ""
        """The tail not sent yet, as long as the longest beginning of a stop string that the text ends with."""

    def feed(self, text: str) -> Emitted:
        """Not to be called again once `stopped_by` was set."""
        if not self._automata:
            return Emitted(text)
        for i, char in enumerate(text):
            for automaton in self._automata:
                if automaton.step(char):
                    return self._cut(self._held + text[: i + 1], automaton.string)
        whole = self._held + text
        sent = len(whole) - max(automaton.matched for automaton in self._automata)
        self._held = whole[sent:]
        return Emitted(whole[:sent])

    def flush(self) -> str:
        """The text has ended: what was held back belongs to it."""
        held, self._held = self._held, ""
        return held

    def _cut(self, whole: str, string: str) -> Emitted:
        self._held = ""
        return Emitted(whole if self._include else whole[: -len(string)], string)


class _Automaton:
    __slots__ = ("_fallback", "matched", "string")

    def __init__(self, string: str) -> None:
        self.string = string
        self.matched = 0
        """Length of the longest beginning of the string that the text so far ends with."""
        self._fallback = _borders(string)

    def step(self, char: str) -> bool:
        while self.matched and self.string[self.matched] != char:
            self.matched = self._fallback[self.matched]
        if self.string[self.matched] == char:
            self.matched += 1
        return self.matched == len(self.string)


def _borders(string: str) -> list[int]:
    """[n] for each length, the longest proper beginning of string[:length] that is also its ending."""
    borders = [0] * (len(string) + 1)
    length = 0
    for i in range(1, len(string)):
        while length and string[i] != string[length]:
            length = borders[length]
        length += string[i] == string[length]
        borders[i + 1] = length
    return borders
