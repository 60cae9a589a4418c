"""A trace's ids of blocks, as keys of the scheduler's blocks, which may be smaller or larger."""

from __future__ import annotations

from headway.workload.call import WorkloadError

KEY_BYTES = 16


class BlockKeys:
    """The keys of one session's calls, one after the other: what a prompt has in common with the last is not redone."""

    def __init__(self, block_size: int, hash_block_size: int) -> None:
        """Raises WorkloadError unless one divides the other."""
        if hash_block_size and hash_block_size % block_size and block_size % hash_block_size:
            raise WorkloadError(
                f"block_size {block_size} and the trace's blocks of {hash_block_size} tokens do not divide each other"
            )
        self._block_size = block_size
        self._parts = max(1, hash_block_size // block_size)
        self._ids_each = max(1, block_size // hash_block_size) if hash_block_size else 1
        self._ids: tuple[int, ...] = ()
        self._keys: list[bytes] = []

    def keys(self, ids: tuple[int, ...], num_tokens: int) -> tuple[bytes, ...]:
        """Of the whole blocks of `num_tokens` tokens, as far as the ids reach."""
        same = self._common(ids)
        del self._keys[same // self._ids_each * self._parts :]
        self._ids = ids
        if self._parts > 1:
            parts = range(self._parts)
            for block in ids[len(self._keys) // self._parts :]:
                first = block * self._parts
                self._keys += [(first + part).to_bytes(KEY_BYTES, "little") for part in parts]
        else:
            whole = ids[self._ids_each - 1 :: self._ids_each]
            self._keys += [block.to_bytes(KEY_BYTES, "little") for block in whole[len(self._keys) :]]
        return tuple(self._keys[: num_tokens // self._block_size])

    def _common(self, ids: tuple[int, ...]) -> int:
        """How many leading ids are those of the last call."""
        last = self._ids
        if ids[: len(last)] == last:
            return len(last)
        return next((i for i, (a, b) in enumerate(zip(ids, last, strict=False)) if a != b), min(len(ids), len(last)))
