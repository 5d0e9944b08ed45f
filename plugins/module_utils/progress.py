# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a long-running module tells the controller how far it is.

The module writes one JSON object to a file, always whole (write beside, then
rename); the action plugin of the same name reads it while it waits::

    progress = Progress(module.params["progress_file"])
    progress.update("compile", done=812, total=2120)

Without a file every call is a no-op, so modules need no case for it.
"""

from __future__ import annotations

import json
import os
import time


class Progress:
    """Writer of one progress file.

    ``update`` takes a step name, optionally a count ``done`` of ``total``
    (any unit, named by ``unit``) and a free ``detail``. Writes are limited to
    one in ``interval`` seconds, except that a new step is written at once.
    """

    def __init__(self, path: str | None, interval: float = 1.0) -> None:
        self._path = path
        self._interval = interval
        self._step = ""
        self._step_start = 0.0
        self._first_done = 0
        self._last_write = 0.0

    def update(
        self,
        step: str,
        done: int | None = None,
        total: int | None = None,
        unit: str = "",
        detail: str = "",
    ) -> None:
        """Say that ``step`` is at ``done`` of ``total`` ``unit``."""
        if not self._path:
            return
        now = time.monotonic()
        if step != self._step:
            self._step, self._step_start, self._first_done = step, now, done or 0
        elif now - self._last_write < self._interval:
            return
        self._last_write = now
        state = {
            "step": step,
            "done": done,
            "total": total,
            "unit": unit,
            "detail": detail,
            "elapsed": round(now - self._step_start, 1),
            "eta": self._eta(now, done, total),
        }
        beside = f"{self._path}.new"
        try:
            with open(beside, "w", encoding="utf-8") as handle:
                json.dump(state, handle)
            os.replace(beside, self._path)
        except OSError:
            # Progress is a courtesy: a full disk must fail in the work, not here.
            self._path = None

    def _eta(self, now: float, done: int | None, total: int | None) -> float | None:
        """Return the seconds left, or None before there is a rate to go by."""
        if not done or not total or done <= self._first_done or done > total:
            return None
        rate = (done - self._first_done) / max(now - self._step_start, 0.001)
        return round((total - done) / rate, 1)


def render(state: dict) -> str:
    """Return one line for a person from what ``Progress`` wrote.

    >>> render({"step": "compile", "done": 5, "total": 10, "unit": "objects", "eta": 65.0})
    'compile 5/10 objects (50 %), 1:05 left'
    """
    line = state["step"]
    done, total = state.get("done"), state.get("total")
    unit = f" {state['unit']}" if state.get("unit") else ""
    if done is not None and total:
        line += f" {done}/{total}{unit} ({100 * done // total} %)"
    elif done is not None:
        line += f" {done}{unit}"
    if state.get("detail"):
        line += f": {state['detail']}"
    if state.get("eta") is not None:
        minutes, seconds = divmod(int(state["eta"]), 60)
        line += f", {minutes}:{seconds:02d} left"
    return line
