"""Where generated tokens stand: codes in raster order, with the tokens that end rows and pictures between them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paceline.errors import UsageError


@dataclass(frozen=True, slots=True)
class Layout:
    """What is known about a picture or clip before it is generated. Offset 0 is the first token after the prompt.

    Built by `Layout.raster`; layouts that follow one another in one stream (a preview, then the picture) are added.
    """

    frames: int  # T; 1 for a picture
    height: int  # H codes; of the last grid where layouts were added
    width: int  # W codes
    codes: tuple[int, int]  # (first id, last id + 1) that a code may take
    forced: tuple[int, ...]  # [N]; the id that the layout demands at an offset, -1: a code (or a free token)
    above: tuple[int, ...]  # [N]; offset of the code one row higher in its frame, -1: none
    before: tuple[int, ...]  # [N]; offset of the code at this place in the frame before, -1: none
    cell: tuple[int, ...]  # [N]; index of the code in its grid in T, H, W order, -1: no code of the last grid

    @staticmethod
    def raster(
        width: int,
        height: int,
        frames: int = 1,
        *,
        codes: tuple[int, int],
        head: tuple[int, ...] = (),
        line_end: int | None = None,
        frame_end: tuple[int, ...] = (),
        tail: tuple[int, ...] = (),
    ) -> Layout:
        """A grid of `frames` x `height` x `width` codes, row by row.

        head: ids before it, -1 for a token that the model chooses freely; line_end: the id after each row; frame_end:
        ids after each frame; tail: ids after all. Raises UsageError for a side below 1 or an empty range of codes.
        """
        if min(width, height, frames) < 1:
            raise UsageError(f"the layout is {frames} x {height} x {width}; frames, height and width must be 1 or more")
        if not 0 <= codes[0] < codes[1]:
            raise UsageError(f"codes are {codes}; give (first id, last id + 1) with 0 <= first id <= last id")
        row = [-1] * width + ([] if line_end is None else [line_end])
        frame = row * height + list(frame_end)
        forced = [*head, *frame * frames, *tail]
        at = [
            len(head) + t * len(frame) + y * len(row) + x
            for t in range(frames)
            for y in range(height)
            for x in range(width)
        ]
        above, before, cell = [-1] * len(forced), [-1] * len(forced), [-1] * len(forced)
        area = height * width
        for index, offset in enumerate(at):
            cell[offset] = index
            above[offset] = at[index - width] if index % area >= width else -1
            before[offset] = at[index - area] if index >= area else -1
        return Layout(frames, height, width, codes, tuple(forced), tuple(above), tuple(before), tuple(cell))

    @property
    def size(self) -> int:
        """N, all tokens to generate: codes, forced and free ones."""
        return len(self.forced)

    def places(self) -> tuple[int, ...]:
        """[T * H * W]; the offset of each code of the (last) grid, in T, H, W order."""
        found = {index: offset for offset, index in enumerate(self.cell) if index >= 0}
        return tuple(found[index] for index in range(len(found)))

    def __add__(self, other: Layout) -> Layout:
        """This layout, then another one in the same stream. Shape, codes and cells are the last one's."""
        n = self.size
        above = self.above + tuple(o + n if o >= 0 else -1 for o in other.above)
        before = self.before + tuple(o + n if o >= 0 else -1 for o in other.before)
        return replace(
            other, forced=self.forced + other.forced, above=above, before=before, cell=(-1,) * n + other.cell
        )
