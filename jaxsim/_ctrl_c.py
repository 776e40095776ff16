"""Ctrl-C at safe places only, so that what has finished is kept."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType


class CtrlC:
    """While it is entered, Ctrl-C raises inside `allowed` blocks only; elsewhere it waits for the next. A second one
    raises at once. Where Ctrl-C was handled in another way than Python's own, and in other threads, nothing changes.

    Attributes:
        pressed: it was pressed where it could not raise.
    """

    def __init__(self) -> None:
        self.pressed = False
        self._allowed = False
        self._before: object = None

    def __enter__(self) -> "CtrlC":
        if threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """A block that Ctrl-C ends with KeyboardInterrupt, even if it was pressed before."""
        self._allowed = True
        try:
            if self.pressed:
                raise KeyboardInterrupt
            yield
        finally:
            self._allowed = False

    def _press(self, number: int, frame: FrameType | None) -> None:
        if self._allowed or self.pressed:
            raise KeyboardInterrupt
        self.pressed = True
