"""One sequence on its way out: token ids become text, stop strings end it, log-probabilities ride along."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headway.engine.messages import Submit
from headway.scheduler.contract import RowLogprobs, TokenLogprobs
from headway.scheduler.receipt import Receipt
from headway.scheduler.request import FinishReason
from headway.server.engine import Delta
from headway.server.prompt import Prompt
from headway.server.scored import ScoredToken, logprobs_bytes, scored
from headway.server.stops import StopStrings
from headway.server.text import TokenText, Utf8Stream

PIECE_BYTES = 128


@dataclass(frozen=True, slots=True)
class Piece:
    """What became known of one choice. `finish_reason` is only on its last piece."""

    index: int
    text: str
    tokens: tuple[ScoredToken, ...] = ()
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None

    @property
    def held_bytes(self) -> int:
        """About what it takes in memory."""
        return PIECE_BYTES + 4 * len(self.text) + sum(logprobs_bytes(1, len(token.top)) for token in self.tokens)


@dataclass(frozen=True, slots=True)
class Ending:
    """What the client wants an ending to be."""

    strings: tuple[str, ...] = ()
    token_ids: tuple[int, ...] = ()
    """Those that the request named: reported as `stop_reason`."""
    include: bool = False


class Choice:
    """`feed` it what the engine drew; it says what can be sent."""

    def __init__(self, index: int, submit: Submit, prompt: Prompt, text: TokenText, ending: Ending, echo: bool) -> None:
        self.index = index
        self.submit = submit
        self.receipt: Receipt | None = None
        self.stopped_by: str | int | None = None
        """Set as soon as the text is complete although the sequence may run on."""
        self._prompt = prompt
        self._text = text
        self._ending = ending
        self._utf8 = Utf8Stream()
        self._stops = StopStrings(ending.strings, include=ending.include)
        self._echo_due = echo
        self._prompt_entries: list[TokenLogprobs] = []
        self._scored: list[ScoredToken] = []
        self._decoded_chars = 0
        self._sent_chars = 0
        self._wants_logprobs = submit.sampling.logprobs is not None

    def feed(self, delta: Delta) -> Piece | None:
        """None when there is nothing to send yet."""
        if delta.logprobs is not None:
            self._prompt_entries += delta.logprobs.prompt
        ready: list[str] = []
        echoed: tuple[ScoredToken, ...] = ()
        if self._echo_due and (delta.token_ids or delta.ended):
            self._echo_due = False
            echo, echoed = self._echo()
            ready.append(echo)
        if self.stopped_by is None:
            ready.append(self._advance(delta.token_ids, delta.logprobs))
        if delta.ended is not None and self.stopped_by is None:
            ready.append(self._stops.flush())
        return self._piece("".join(ready), echoed, delta)

    def _piece(self, text: str, echoed: tuple[ScoredToken, ...], delta: Delta) -> Piece | None:
        self._sent_chars += len(text)
        ended = delta.ended
        complete = ended is not None and not isinstance(self.stopped_by, str)
        tokens = echoed + self._take_scored(everything=complete)
        if ended is None:
            return Piece(self.index, text, tokens) if text or tokens else None
        self.receipt = ended.receipt
        # A stop string may be found in the very step that reaches the length limit; the text ends by the string.
        reason: FinishReason = "stop" if self.stopped_by is not None else ended.reason
        return Piece(self.index, text, tokens, reason, self.stopped_by)

    def _advance(self, token_ids: list[int], logprobs: RowLogprobs | None) -> str:
        sent: list[str] = []
        entries = logprobs.drawn if logprobs is not None else ()
        for i, token_id in enumerate(token_ids):
            if token_id in self.submit.stop_token_ids:
                return "".join(sent) + self._end_by_token(token_id)
            if self._wants_logprobs:
                entry = entries[i] if i < len(entries) else None
                self._scored.append(scored(self._text, token_id, self._decoded_chars, entry))
            emitted = self._stops.feed(self._decoded([token_id]))
            sent.append(emitted.text)
            if emitted.stopped_by is not None:
                self.stopped_by = emitted.stopped_by
                break
        return "".join(sent)

    def _end_by_token(self, token_id: int) -> str:
        """The engine ends the sequence there by itself. Its text is shown only if asked for."""
        if token_id not in self._ending.token_ids:
            return ""
        text = self._utf8.feed(self._text.raw_bytes_of(token_id)) if self._ending.include else ""
        held = self._stops.flush()
        self.stopped_by = token_id
        return held + text

    def _echo(self) -> tuple[str, tuple[ScoredToken, ...]]:
        if not self._wants_logprobs:
            prompt = self._prompt
            return prompt.text if prompt.text is not None else self._decoded(prompt.token_ids), ()
        ids = self._prompt.token_ids
        # Nothing predicts the first token, so an engine may or may not send an entry for it.
        known = self._prompt_entries[-(len(ids) - 1) :] if len(ids) > 1 else []
        entries: list[TokenLogprobs | None] = [None, *known]
        tokens: list[ScoredToken] = []
        parts: list[str] = []
        for token_id, entry in zip(ids, entries, strict=False):
            tokens.append(scored(self._text, token_id, self._decoded_chars, entry))
            parts.append(self._decoded([token_id]))
        return "".join(parts), tuple(tokens)

    def _decoded(self, token_ids: Sequence[int]) -> str:
        """Goes on where the last call ended: a character may begin in the prompt and end in what was drawn."""
        text = self._utf8.feed(b"".join(map(self._text.bytes_of, token_ids)))
        self._decoded_chars += len(text)
        return text

    def _take_scored(self, everything: bool) -> tuple[ScoredToken, ...]:
        """Entries go out with the text that their tokens begin in; those behind a stop string never do."""
        ready = len(self._scored)
        if not everything:
            while ready and self._scored[ready - 1].offset >= self._sent_chars:
                ready -= 1
        taken = tuple(self._scored[:ready])
        del self._scored[:ready]
        return taken


def prompt_logprobs_bytes(choices: Iterable[Choice]) -> int:
    """About what the log-probabilities of the prompts will take: they are kept until the last of them has come."""
    submits = [choice.submit for choice in choices]
    return sum(
        logprobs_bytes(submit.num_prompt_tokens, submit.sampling.prompt_logprobs)
        for submit in submits
        if submit.sampling.prompt_logprobs is not None
    )
