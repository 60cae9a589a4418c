"""Asks the server under test and writes down what happened."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import dataclass, field

from headway.bench.connection import Connection, Opener, Pool, opener, reason
from headway.bench.endpoint import PATHS, Endpoint
from headway.bench.exchange import Deadlines, Ended, Exchange
from headway.bench.record import Record
from headway.workload.call import Call

_OUR_LIMITS = (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM)
"""Sockets ran out on this side: no fault of the server."""
MAX_RETRY_WAIT_S = 60.0
RETRY_WAIT_S = 1.0
"""Where the server does not say for how long."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    deadlines: Deadlines = field(default_factory=Deadlines)
    retries: int = 0
    """Of an answer 429 or 503, after the pause that it asks for; the pause counts as latency."""
    needs_done: bool = True
    """A stream without [DONE] is cut."""
    max_idle_connections: int = 4096


class Client:
    """One event loop, any number of requests at once."""

    def __init__(
        self,
        endpoint: Endpoint,
        settings: ClientSettings,
        api_key: str | None = None,
        connect: Opener | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.settings = settings
        self._api_key = api_key
        connect = connect or opener(endpoint.host, endpoint.port, endpoint.tls_context())
        self._pool = Pool(connect, settings.max_idle_connections)
        self._path = PATHS[endpoint.api]

    def close(self) -> None:
        self._pool.close()

    async def ask(self, call: Call, body: bytes, start_s: float, scheduled_s: float) -> Record:
        """Sends at once. `start_s`: the loop's time at the start of the run; `scheduled_s` since then.

        Never raises for what a server does. When cancelled, the record so far is lost: callers keep `interrupted`.
        """
        sent_s = asyncio.get_running_loop().time()
        tries = 0
        while True:
            exchange, connect_s, ended = await self._try(body, call.num_output_tokens)
            wait_s = self._retry_wait_s(exchange, ended, tries)
            if wait_s is None:
                return self._record(call, exchange, ended, sent_s, start_s, scheduled_s, connect_s, tries)
            tries += 1
            await asyncio.sleep(wait_s)

    async def fetch(self, method: str, path: str, body: bytes = b"") -> bytes:
        """A whole body from another endpoint of the same server. Raises StatusError for any status but 200, and OSError
        when there is no answer.
        """
        answer = _Fetch(asyncio.get_running_loop().create_future())
        connection = self._pool.idle() or await self._fresh()
        connection.send(self.endpoint.head(method, path, body, self._api_key), body, answer)
        silence_s = self.settings.deadlines.silence_s
        try:
            async with asyncio.timeout(silence_s):
                return await answer.done
        except TimeoutError:
            raise OSError(f"no answer in {silence_s:g} s") from None
        finally:
            self._pool.give_back(connection)

    async def _fresh(self) -> Connection:
        """Raises OSError; TimeoutError past the deadline."""
        connect_s = self.settings.deadlines.connect_s
        try:
            async with asyncio.timeout(connect_s):
                return await self._pool.fresh()
        except TimeoutError:
            raise TimeoutError(f"no connection in {connect_s:g} s") from None

    async def _try(self, body: bytes, num_tokens: int) -> tuple[Exchange, float | None, Ended]:
        """A connection that was kept may be closed by the server in the same moment: then once more, on a fresh one."""
        loop = asyncio.get_running_loop()
        idle = self._pool.idle()
        if idle is not None:
            exchange, ended = await self._on(idle, body, num_tokens)
            if ended.outcome != "reset" or exchange.heard:
                return exchange, None, ended
        exchange = Exchange(self.settings.needs_done, num_tokens, loop)
        began_s = loop.time()
        try:
            fresh = await self._fresh()
        except TimeoutError as error:
            return exchange, None, Ended("timeout", reason(error))
        except OSError as error:
            ours = error.errno in _OUR_LIMITS
            return exchange, None, Ended("unsent" if ours else "unreachable", reason(error))
        connect_s = loop.time() - began_s
        exchange, ended = await self._on(fresh, body, num_tokens)
        return exchange, connect_s, ended

    async def _on(self, connection: Connection, body: bytes, num_tokens: int) -> tuple[Exchange, Ended]:
        loop = asyncio.get_running_loop()
        exchange = Exchange(self.settings.needs_done, num_tokens, loop)
        head = self.endpoint.head("POST", self._path, body, self._api_key)
        watch = _Watch(exchange, self.settings.deadlines)
        try:
            connection.send(head, body, exchange)
            ended = await exchange.ended
        except BaseException:
            connection.close()
            raise
        finally:
            watch.stop()
        self._pool.give_back(connection)
        return exchange, ended

    def _retry_wait_s(self, exchange: Exchange, ended: Ended, tries: int) -> float | None:
        if ended.outcome != "refused" or tries >= self.settings.retries:
            return None
        asked_s = exchange.retry_after_s
        return min(RETRY_WAIT_S if asked_s is None else asked_s, MAX_RETRY_WAIT_S)

    def _record(
        self,
        call: Call,
        exchange: Exchange,
        ended: Ended,
        sent_s: float,
        start_s: float,
        scheduled_s: float,
        connect_s: float | None,
        tries: int,
    ) -> Record:
        answer = exchange.answer
        usage = answer.usage
        return Record(
            id=call.id,
            session=call.session,
            turn=call.turn,
            outcome=ended.outcome,
            error=ended.why,
            status=exchange.status,
            retries=tries,
            retry_after_s=exchange.retry_after_s,
            asked_input_tokens=call.num_input_tokens,
            asked_output_tokens=call.num_output_tokens,
            scheduled_s=scheduled_s,
            sent_s=sent_s - start_s,
            connect_s=connect_s,
            headers_s=None if exchange.headers_s is None else exchange.headers_s - sent_s,
            arrivals_s=[arrival - sent_s for arrival in answer.arrivals_s],
            end_s=None if answer.end_s is None else answer.end_s - sent_s,
            closed_s=asyncio.get_running_loop().time() - sent_s,
            finish_reason=answer.finish_reason,
            num_chunks=len(answer.pieces),
            text=answer.text,
            usage_prompt_tokens=usage.prompt_tokens,
            usage_output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            receipt=usage.receipt,
        )


class _Watch:
    """One timer for all deadlines of an exchange: it looks when the nearest could have passed, not at each chunk."""

    def __init__(self, exchange: Exchange, deadlines: Deadlines) -> None:
        self._exchange = exchange
        self._deadlines = deadlines
        self._sent_s = exchange.loop.time()
        self._timer = exchange.loop.call_at(self._look_again_s(), self._look)

    def stop(self) -> None:
        self._timer.cancel()

    def _next(self) -> tuple[float, str]:
        limits = self._deadlines
        arrivals = self._exchange.answer.arrivals_s
        if arrivals:
            quiet = (arrivals[-1] + limits.silence_s, f"silent for {limits.silence_s:g} s")
        else:
            quiet = (self._sent_s + limits.first_text_s, f"no text in {limits.first_text_s:g} s")
        return min(quiet, (self._sent_s + limits.whole_s, f"not finished in {limits.whole_s:g} s"))

    def _look(self) -> None:
        deadline_s, why = self._next()
        if self._exchange.loop.time() >= deadline_s:
            self._exchange.expire(why)
        else:
            self._timer = self._exchange.loop.call_at(self._look_again_s(), self._look)

    def _look_again_s(self) -> float:
        """The first text brings the deadline nearer: no farther ahead than a silence may last."""
        return min(self._next()[0], self._exchange.loop.time() + self._deadlines.silence_s)


class StatusError(OSError):
    """An answer, but not with status 200."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}{NEEDS_KEY if status == 401 else ''}")
        self.status = status


@dataclass(slots=True)
class _Fetch:
    """A whole body of bounded size."""

    done: asyncio.Future[bytes]
    status: int = 0
    body: bytearray = field(default_factory=bytearray)

    def on_headers(self, status: int, headers: dict[str, str]) -> None:
        del headers
        self.status = status

    def on_body(self, part: bytes) -> None:
        self.body += part
        if len(self.body) > MAX_FETCH_BYTES:
            self._fail(OSError(f"more than {MAX_FETCH_BYTES} bytes"))

    def on_end(self) -> None:
        if self.status != 200:
            self._fail(StatusError(self.status))
        elif not self.done.done():
            self.done.set_result(bytes(self.body))

    def on_lost(self, why: str) -> None:
        self._fail(OSError(why))

    def _fail(self, error: OSError) -> None:
        if not self.done.done():
            self.done.set_exception(error)


NEEDS_KEY = " (the server wants a key, or another: set HEADWAY_API_KEY)"
MAX_FETCH_BYTES = 64 * 2**20
