"""Listens to a queue in a thread of its own, and keeps the files that it names until the next look asks for them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.watch.known_files import MOST_CONFIRMED
from tokcore_pipelines.watch.queue_messages import find_urls
from tokcore_pipelines.watch.queues import Queue

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 300.0
_MOST_SHOWN = 300  # characters of an error


class Notifications:
    """Only while it is listening are messages taken: another watcher, which commits, needs them then."""

    def __init__(self, queue: Queue, wake: Callable[[], None], say: Callable[[str], None]) -> None:
        """wake: is called when a file was named. say: is told of trouble, once for each cause, and of its end."""
        self.trouble = ""
        self.num_failed = 0  # requests
        self._num_named = self._num_other = 0  # messages with and without a file, since they were last taken
        self._queue = queue
        self._wake = wake
        self._say = say
        self._urls: set[str] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._is_listening = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def begin(self) -> None:
        """Start the thread; nobody listens yet."""
        self._thread.start()

    def listen(self, is_wanted: bool) -> None:
        """Take messages from now on, or leave them to another watcher."""
        if is_wanted:
            self._is_listening.set()
        else:
            self._is_listening.clear()

    def take(self) -> set[str]:
        """The URLs that were named since the last call; more than MOST_CONFIRMED stand for any number."""
        with self._lock:
            taken, self._urls = self._urls, set()
        return taken

    def take_counts(self) -> tuple[int, int]:
        """(messages with a file, messages without) since the last call."""
        with self._lock:
            counts = self._num_named, self._num_other
            self._num_named = self._num_other = 0
        return counts

    def end(self) -> None:
        """Listen no more. A request that waits for a message is left to end by itself."""
        self._ended.set()
        self._is_listening.set()

    def _listen(self) -> None:
        pause = _FIRST_PAUSE_S
        while self._is_listening.wait() and not self._ended.is_set():
            try:
                messages = self._queue.receive()
            except Exception as error:  # of any library
                self._note_trouble(error, pause)
                self._ended.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
                continue
            pause = _FIRST_PAUSE_S
            if self.trouble:
                self.trouble = ""
                self._say("watch: the queue of notifications answers again")
            named: set[str] = set()
            for message in messages:
                found = find_urls(message.body, message.attributes)
                with self._lock:
                    self._num_named += bool(found)
                    self._num_other += not found
                named.update(found)
            if named:
                with self._lock:
                    room = MOST_CONFIRMED + 1 - len(self._urls)
                    self._urls.update(sorted(named)[: max(0, room)])
                self._wake()

    def _note_trouble(self, error: Exception, pause: float) -> None:
        self.num_failed += 1
        said = " ".join(redact(str(error)).split())[:_MOST_SHOWN] or type(error).__name__
        if said != self.trouble:
            self._say(f"watch: notifications: {said}. The sources are listed all the same; the queue is asked again")
        self.trouble = said
